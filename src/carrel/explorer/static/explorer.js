"use strict";
// Better with a script, but every page works without: keys, copying, search as one types, and live changes.
(() => {
  const body = document.body;
  const box = document.getElementById("q");
  const status = document.getElementById("status");
  const keys = document.getElementById("keys");
  let clearing = 0;

  function say(text, seconds) {
    clearTimeout(clearing);
    status.textContent = text;
    if (seconds) clearing = setTimeout(() => { status.textContent = ""; }, seconds * 1000);
  }

  for (const one of document.querySelectorAll(".needs-script")) one.hidden = false;

  // Copying

  function chosenLines() {
    const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
    if (!found || !document.querySelector(".code .n")) return "";
    const ends = [Number(found[1]), Number(found[2] || found[1])];
    return Math.min(...ends) + "-" + Math.max(...ends);
  }

  function pageUri() {
    const uri = body.dataset.subject || "";
    const lines = chosenLines();
    const content = document.querySelector(".content[data-uri]");
    if (!uri || !lines || !content) return uri;
    const bare = content.dataset.uri;
    return bare + (bare.includes("?") ? "&" : "?") + "lines=" + lines;
  }

  async function copy(text) {
    if (!text) return;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      if (!done) { say("Copy this: " + text, 0); return; }
    }
    say("Copied " + text, 4);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy("copyUri" in button.dataset ? pageUri() || button.dataset.copy : button.dataset.copy);
    if (event.target.closest("#show-keys")) keys.showModal();
  });

  // Keys

  const rows = () => [...document.querySelectorAll("main a.go")].filter((one) => one.checkVisibility());

  function move(step) {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement);
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step));
    all[next].focus();
    all[next].scrollIntoView({ block: "nearest" });
  }

  const actions = {
    "/": () => { box.focus(); box.select(); },
    j: () => move(1),
    k: () => move(-1),
    u: () => { if (body.dataset.up) location.assign(body.dataset.up); },
    y: () => {
      const row = document.activeElement && document.activeElement.closest("a.go[data-uri]");
      copy(row ? row.dataset.uri : pageUri());
    },
    "?": () => keys.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const within = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key === "Escape" && within) { within.blur(); return; }
    if (within || keys.open || !Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });

  // Search as one types: the answer to the last query is the one that is shown

  let asking = null;
  let typed = 0;

  async function find() {
    const form = document.getElementById("find");
    const asked = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) asked.append(name, value);
    const address = "/-/search" + (asked.size ? "?" + asked : "");
    if (asking) asking.abort();
    const mine = asking = new AbortController();
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" }, signal: mine.signal });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("hits");
      if (mine !== asking || !fresh) return;
      document.getElementById("hits").replaceWith(fresh);
      document.title = page.title;
      history.replaceState(null, "", address);
    } catch (error) {
      if (error.name !== "AbortError") say("The server does not answer", 4);
    }
  }

  if (body.dataset.page === "search") {
    const later = () => { clearTimeout(typed); typed = setTimeout(find, 60); };
    box.addEventListener("input", later);
    for (const one of document.querySelectorAll(".filters [name]")) one.addEventListener("input", later);
    if (!box.value) box.focus();
  }

  // Lines that another part of the text holds

  function goToLines() {
    const shown = document.querySelector(".content[data-total]");
    const found = /^#L(\d+)/.exec(location.hash);
    if (!shown || !found) return;
    const line = Number(found[1]);
    const [first, last] = shown.dataset.lines.split("-").map(Number);
    if (line > Number(shown.dataset.total) || (line >= first && line <= last)) return;
    const target = new URL(location.href);
    target.searchParams.delete("start");
    target.searchParams.delete("length");
    target.searchParams.set("lines", Math.max(1, line - 20) + "-");
    location.replace(target);
  }

  addEventListener("hashchange", goToLines);
  goToLines();

  // Live: one event stream for the page, while it is looked at

  const live = body.dataset.live;
  let known = '"' + body.dataset.etag + '"';
  let stream = null;
  let wasLost = false;
  let retry = 1000;
  let later = 0;
  let isSilent = false;
  let isShutOut = false;
  let refreshing = false;
  let again = false;

  const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;

  async function refresh() {
    if (refreshing) { again = true; return; }
    refreshing = true;
    try {
      const headers = { Accept: "text/html", "If-None-Match": known };
      const answer = await fetch(location.pathname + location.search, { headers });
      if (isSilent) { isSilent = false; retry = 1000; say("Connected again", 3); }
      if (answer.status === 304) return;
      if (answer.status === 401) {
        isShutOut = true;
        hush();
        say("This browser is not let in any more: run `carrel open` for a new link", 0);
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      const old = document.getElementById("live");
      if (!answer.ok || !fresh || !old) { say("This changed, and is not served any more: " + answer.status, 0); return; }
      known = answer.headers.get("etag") || "";
      const follows = atEnd();
      const focused = document.activeElement && document.activeElement.dataset.uri;
      old.replaceWith(fresh);
      for (const part of ["details.model", ".facts-line"]) {
        const mine = document.querySelector(part);
        const theirs = page.querySelector(part);
        if (!mine || !theirs) continue;
        if (mine.open) theirs.open = true;
        mine.replaceWith(theirs);
      }
      if (focused) { const row = rows().find((one) => one.dataset.uri === focused); if (row) row.focus(); }
      const isLog = fresh.querySelector(".log");
      if (isLog && follows) scrollTo({ top: document.documentElement.scrollHeight });
      say(isLog ? "New lines at " + new Date().toLocaleTimeString() : "This changed at " + new Date().toLocaleTimeString() + "; the page shows it as it is now", isLog ? 3 : 0);
    } catch {
      say("The server does not answer; trying again", 0);
      isSilent = true;
      clearTimeout(later);
      later = setTimeout(refresh, retry);
      retry = Math.min(retry * 2, 30000);
    } finally {
      refreshing = false;
      if (again) { again = false; refresh(); }
    }
  }

  function listen() {
    if (!live || stream || document.hidden || isShutOut) return;
    stream = new EventSource("/-/events?uri=" + encodeURIComponent(live));
    stream.addEventListener("message", refresh);
    stream.addEventListener("open", () => {
      retry = 1000;
      if (wasLost) { wasLost = false; say("Connected again", 3); }
      refresh(); // what changed before the stream was open
    });
    stream.addEventListener("error", () => {
      if (!wasLost) { wasLost = true; say("The connection is lost; trying again", 0); }
      if (stream && stream.readyState === EventSource.CLOSED) {
        stream = null;
        refresh(); // a server that does not know this browser any more says so
        setTimeout(listen, retry);
        retry = Math.min(retry * 2, 30000);
      }
    });
  }

  function hush() {
    if (stream) { stream.close(); stream = null; }
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hush();
    else if (live) { listen(); refresh(); }
  });
  addEventListener("online", () => { retry = 1000; listen(); if (live) refresh(); });
  addEventListener("pagehide", hush);
  addEventListener("pageshow", listen);
})();
