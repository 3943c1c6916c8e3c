"""Flutter's command lines: made of checked values only, one argument each."""

import os
from collections.abc import Mapping
from typing import Final

from carrel.core.provider import Project
from carrel.core.record import Value

MODES: Final = ("debug", "profile", "release")
PLATFORMS: Final = {
    "android": "apk",
    "ios": "ios",
    "web": "web",
    "macos": "macos",
    "windows": "windows",
    "linux": "linux",
}
"""A platform, and what `flutter build` calls it."""

_BUILT: Final = {
    "android": ("build/app/outputs/flutter-apk/app-{mode}.apk",),
    "ios": ("build/ios/iphoneos/Runner.app", "build/ios/iphoneos"),
    "web": ("build/web",),
    "macos": ("build/macos/Build/Products/{Mode}",),
    "windows": ("build/windows/x64/runner/{Mode}", "build/windows/runner/{Mode}"),
    "linux": ("build/linux/x64/{mode}/bundle", "build/linux/arm64/{mode}/bundle"),
}
"""Where a build puts what it made."""


class Options(Value, frozen=True):
    """What a caller may choose, checked."""

    mode: str
    device: str | None = None
    target: str | None = None
    defines: Mapping[str, str] = {}

    def words(self) -> list[str]:
        """Give the arguments."""
        words = [f"--{self.mode}"]
        if self.device is not None:
            words += ["-d", self.device]
        if self.target is not None:
            words.append(f"--target={self.target}")
        return words + [f"--dart-define={name}={value}" for name, value in self.defines.items()]


def find(project: Project, executable: str) -> str | None:
    """Give the program's path: a name is looked up in PATH, a path is relative to the root."""
    if os.sep in executable:
        places = [os.path.join(project.root, executable)]
    else:
        folders = project.environment.get("PATH", os.defpath).split(os.pathsep)
        # What PATH says of the working folder depends on who started us, and is not meant.
        places = [os.path.join(folder, executable) for folder in folders if os.path.isabs(folder)]
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)


def is_project(project: Project) -> bool:
    """Tell whether the root holds a Flutter project."""
    return os.path.isfile(os.path.join(project.root, "pubspec.yaml"))


def built(project: Project, platform: str, mode: str) -> str | None:
    """Give the path of what a build made, relative to the root, if it is there."""
    paths = (path.format(mode=mode, Mode=mode.capitalize()) for path in _BUILT[platform])
    return next((path for path in paths if os.path.exists(os.path.join(project.root, path))), None)
