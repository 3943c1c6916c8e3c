"use strict";
// Lines of a text: choose one with a click, several with shift; the address and the URI of the lines follow.
(() => {
  const content = () => document.querySelector(".content[data-uri]");
  const asked = () => /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
  let bar = null;

  function chosen() {
    const found = asked();
    if (!found) return null;
    const ends = [Number(found[1]), Number(found[2] || found[1])];
    return { first: Math.min(...ends), last: Math.max(...ends) };
  }

  function show(scrolls) {
    for (const line of document.querySelectorAll(".l.chosen")) line.classList.remove("chosen");
    const range = chosen();
    const start = range && document.getElementById("L" + range.first);
    if (bar) bar.hidden = !start;
    if (!start) return;
    let line = start;
    for (let at = range.first; line && at <= range.last; at += 1) {
      line.classList.add("chosen");
      line = document.getElementById("L" + (at + 1));
    }
    if (scrolls) start.scrollIntoView({ block: "center" });
    offer(range);
  }

  function linesUri(range) {
    const uri = content().dataset.uri;
    const lines = range.first + "-" + range.last;
    return uri + (uri.includes("?") ? "&" : "?") + "lines=" + lines;
  }

  function offer(range) {
    if (!content() || !content().querySelector(".code .n")) return;
    if (!bar) {
      bar = document.createElement("p");
      bar.className = "chosen-lines";
      bar.setAttribute("role", "status");
      bar.append(document.createElement("code"), " ", document.createElement("button"));
      const button = bar.querySelector("button");
      button.type = "button";
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(linesUri(chosen()));
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(bar.querySelector("code"));
          button.textContent = "Press Ctrl+C";
        }
      });
    }
    if (!bar.isConnected) content().append(bar);
    bar.hidden = false;
    bar.querySelector("code").textContent = linesUri(range);
    bar.querySelector("button").textContent = "Copy the URI of these lines";
  }

  document.addEventListener("click", (event) => {
    const number = event.target.closest(".code a.n");
    if (!number || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const clicked = Number(number.dataset.n);
    const before = chosen();
    const from = event.shiftKey && before ? before.first : clicked;
    const [first, last] = from <= clicked ? [from, clicked] : [clicked, from];
    history.replaceState(null, "", "#L" + first + (last > first ? "-L" + last : ""));
    show(false);
  });
  addEventListener("hashchange", () => show(true));
  // A page that shows a change has new lines, of which none is chosen.
  new MutationObserver(() => {
    if (chosen() && !document.querySelector(".l.chosen")) show(false);
  }).observe(document.body, { childList: true, subtree: true });
  show(true);
})();
