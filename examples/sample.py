"""Lays out a small project with data for every provider, to try Carrel on.

python -m examples.sample FOLDER
"""

import sys
from pathlib import Path

FILES = {
    "pubspec.yaml": """\
name: weather_desk
description: A small Flutter app that shows today's weather.
version: 1.2.0
environment:
  sdk: ">=3.5.0 <4.0.0"
dependencies:
  flutter:
    sdk: flutter
  http: ^1.2.0
""",
    "analysis_options.yaml": "include: package:flutter_lints/flutter.yaml\n",
    "lib/main.dart": """\
import 'package:flutter/material.dart';

import 'forecast.dart';

void main() => runApp(const WeatherDesk());

/// Today's weather, and nothing else.
class WeatherDesk extends StatelessWidget {
  const WeatherDesk({super.key});

  @override
  Widget build(BuildContext context) {
    return MaterialApp(
      title: 'Weather desk',
      home: Scaffold(
        appBar: AppBar(title: const Text('Today — 今日 ☀')),
        body: ForecastView(city: 'Tromsø'),
      ),
    );
  }
}
""",
    "lib/forecast.dart": """\
import 'package:flutter/widgets.dart';

/// Shows the forecast for one city.
class ForecastView extends StatelessWidget {
  const ForecastView({super.key, required this.city});

  final String city;

  @override
  Widget build(BuildContext context) => Text('$city: −4 °C, clear');
}
""",
    "test/forecast_test.dart": """\
import 'package:flutter_test/flutter_test.dart';

void main() => test('cold is cold', () => expect(-4 < 0, isTrue));
""",
    "android/app/build.gradle.kts": 'plugins {\n    id("com.android.application")\n    kotlin("android")\n}\n',
    "ios/Runner/AppDelegate.swift": "import Flutter\nimport UIKit\n",
    "README.md": "# Weather desk\n\nA sample project for Carrel.\n",
    ".gitignore": "build/\n*.log\n",
    ".env": "WEATHER_API_KEY=not-a-real-key\n",
    "build/app.log": "noise\n",
}

BUILD = """\
echo "Compiling lib/main.dart for the Web..."
for step in 1 2 3; do echo "[$step/3] building"; sleep 0.4; done
echo "warning: WEATHER_API_KEY=0123456789abcdef is set" >&2
echo "Built build/web"
"""
"""What plays a build in the demonstration."""


def lay_out(folder: Path) -> None:
    """Write the sample project into a folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m examples.sample FOLDER")
    lay_out(Path(sys.argv[1]))
    print(f"A sample project lies in {sys.argv[1]}; try: carrel --project {sys.argv[1]}")
