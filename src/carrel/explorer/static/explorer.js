"use strict";
// Better with a script, but every page works without: keys, copying, search as one types, and live changes.
(() => {
  const body = document.body;
  const box = document.getElementById("q");
  const status = document.getElementById("status");
  const keys = document.getElementById("keys");
  const isSearch = body.dataset.page === "search";
  const SHUT_OUT = "This browser has no access any more: run `carrel open` for a new link";
  let clearing = 0;

  function say(text, seconds) {
    clearTimeout(clearing);
    status.textContent = text;
    if (seconds) clearing = setTimeout(() => { status.textContent = ""; }, seconds * 1000);
  }

  function reveal() {
    for (const one of document.querySelectorAll(".needs-script")) one.hidden = false;
  }

  reveal();

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
    if (event.target.closest(".fold")) toggle(event.target.closest("tr"));
  });

  // Keys

  const rows = () => [...document.querySelectorAll("main a.go")].filter((one) => one.checkVisibility());

  function move(step) {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement);
    if (isSearch && at + step < 0 && at === 0) { box.focus(); return; }
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step));
    all[next].focus();
    all[next].scrollIntoView({ block: "nearest" });
  }

  const actions = {
    "/": () => { if (box) { box.focus(); box.select(); } },
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
    if (box && event.target === box) { onSearchKey(event); return; }
    const within = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key === "Escape" && within) { within.blur(); return; }
    const arrow = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (arrow && event.target.matches("main a.go")) { event.preventDefault(); move(arrow); return; }
    if (event.target.matches("#rows a.go") && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      event.preventDefault();
      onFoldKey(event.target.closest("tr"), event.key === "ArrowRight");
      return;
    }
    if (within || keys.open || !Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });

  // Folders that open in place: their children are asked for when they are opened

  const depthOf = (row) => Number(row.dataset.depth || 0);
  const isOpen = (row) => row.querySelector(".fold")?.getAttribute("aria-expanded") === "true";

  function below(row) {
    const found = [];
    for (let next = row.nextElementSibling; next && depthOf(next) > depthOf(row); next = next.nextElementSibling) found.push(next);
    return found;
  }

  const titleOf = (head) => head.textContent;

  // Another folder may have other columns: a child gets those of this table
  function child(theirs, names, heads, depth) {
    const row = document.createElement("tr");
    row.dataset.depth = depth;
    row.style.setProperty("--depth", depth);
    const cells = [...theirs.cells];
    for (const head of heads) {
      const empty = document.createElement("td");
      empty.className = head.className;
      row.append(cells[names.indexOf(titleOf(head))] || empty);
    }
    row.cells[0].classList.add("name");
    return row;
  }

  function fold(row) {
    row.querySelector(".fold").setAttribute("aria-expanded", "false");
    for (const one of below(row)) one.remove();
  }

  function unfold(row, rows) {
    row.querySelector(".fold").setAttribute("aria-expanded", "true");
    row.after(...rows);
  }

  // The rows of the children of a folder, with the columns of its table; null if its page has no list
  async function childrenOf(row) {
    const heads = [...row.closest("table").querySelectorAll("th")];
    const depth = depthOf(row) + 1;
    const link = row.querySelector("a.go");
    const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const table = page.getElementById("rows");
    if (!table) return null;
    const names = table.tHead ? [...table.querySelectorAll("th")].map(titleOf) : ["name"];
    const rows = [...table.tBodies[0].rows].map((one) => child(one, names, heads, depth));
    if (page.querySelector("a[rel=next]")) {
      const more = document.createElement("tr");
      more.append(document.createElement("td"));
      const all = document.createElement("a");
      all.className = "go";
      all.href = link.href;
      all.dataset.uri = link.dataset.uri;
      all.textContent = "All of " + link.textContent;
      more.cells[0].append(all);
      rows.push(child(more, ["name"], heads, depth));
    }
    return rows;
  }

  async function toggle(row) {
    if (isOpen(row)) { fold(row); return; }
    unfold(row, []);
    const isWanted = () => row.isConnected && isOpen(row) && !below(row).length;
    try {
      const rows = await childrenOf(row);
      if (!isWanted()) return;
      if (!rows) { location.assign(row.querySelector("a.go").href); return; }
      unfold(row, rows);
      reveal();
    } catch {
      if (!isWanted()) return;
      fold(row);
      say("The server does not answer", 4);
    }
  }

  // Open in a new list what is open in the shown one. The reader may open and close folders meanwhile
  async function reopen(fresh) {
    const uriOf = (row) => row.querySelector("a.go").dataset.uri;
    const folders = (place) => [...place.querySelectorAll("#rows tr")].filter((row) => row.querySelector(".fold"));
    const gone = new Set();
    for (;;) {
      const open = new Set(folders(document.getElementById("live")).filter(isOpen).map(uriOf));
      for (const row of folders(fresh)) if (isOpen(row) && !open.has(uriOf(row))) fold(row);
      const row = folders(fresh).find((one) => !isOpen(one) && open.has(uriOf(one)) && !gone.has(uriOf(one)));
      if (!row) return;
      const rows = await childrenOf(row);
      if (rows) unfold(row, rows);
      else gone.add(uriOf(row));
    }
  }

  function onFoldKey(row, opens) {
    if (row.querySelector(".fold") && isOpen(row) !== opens) { toggle(row); return; }
    let up = row;
    while (!opens && depthOf(row) && up && depthOf(up) >= depthOf(row)) up = up.previousElementSibling;
    if (up !== row) up.querySelector("a.go").focus();
  }

  // Search as one types: the hits of the search page itself, and on every other page a list below the field

  const MOST = 8;
  let sent = "";
  let isAsking = false;
  let typed = 0;
  let offered = null;
  let listed = "";
  let active = -1;

  function wanted() {
    const asked = new URLSearchParams();
    for (const [name, value] of new FormData(box.form)) if (value.trim()) asked.append(name, value.trim());
    return "/-/search" + (asked.size ? "?" + asked : "");
  }

  // One request at a time, and none for an unchanged query: the answer asks again if letters came meanwhile
  async function find() {
    const address = wanted();
    if (isAsking || address === sent) return;
    if (!isSearch && !box.value.trim()) { sent = ""; withdraw(); return; }
    isAsking = true;
    sent = address;
    try {
      const answer = await fetch(address + (isSearch ? "" : "&limit=" + MOST), { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const hits = page.getElementById("hits");
      if (!hits) { sent = ""; say(answer.status === 401 ? SHUT_OUT : "The search does not answer: " + answer.status, 4); return; }
      if (isSearch) showHits(page, hits, address);
      else if (document.activeElement === box && box.value.trim()) offer(hits, address);
      else sent = ""; // the list has the hits of an earlier query
    } catch {
      sent = "";
      say("The server does not answer", 4);
    } finally {
      isAsking = false;
      if (wanted() !== address) find();
    }
  }

  function announce(hits) {
    document.getElementById("found-said").textContent = hits.querySelector("p").textContent;
  }

  function showHits(page, hits, address) {
    document.getElementById("hits").replaceWith(hits);
    document.querySelector(".bottom").replaceWith(page.querySelector(".bottom"));
    reveal();
    document.title = page.title;
    history.replaceState(null, "", address);
    announce(hits);
  }

  function option(address, parts, at) {
    const row = document.createElement("a");
    row.id = "found-" + at;
    row.href = address;
    row.tabIndex = -1;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", "false");
    row.append(...parts);
    return row;
  }

  // The line with the most marked letters
  function bestLine(hit) {
    const marked = (line) => [...line.querySelectorAll("mark")].reduce((sum, one) => sum + one.textContent.length, 0);
    return [...hit.querySelectorAll(".context span")].reduce((best, one) => best && marked(best) >= marked(one) ? best : one, null);
  }

  // A narrow list cuts the end of a line off: what is marked stands near its start
  function showMark(code) {
    const before = code.firstChild;
    if (before.nodeType === Node.TEXT_NODE && before.length > 24) before.data = "…" + before.data.slice(-16);
  }

  function offer(hits, address) {
    if (!offered) {
      offered = document.createElement("div");
      offered.id = "found";
      offered.setAttribute("role", "listbox");
      offered.setAttribute("aria-label", "Hits");
      offered.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
      box.form.append(offered);
      box.setAttribute("aria-controls", "found");
      box.setAttribute("aria-autocomplete", "list");
    }
    const rows = [...hits.querySelectorAll("a.go")].map((hit, at) => {
      const line = bestLine(hit.parentElement);
      const name = document.createElement("b");
      name.textContent = hit.textContent;
      const code = document.createElement("code");
      if (line) { code.append(...line.cloneNode(true).childNodes); code.title = line.textContent; showMark(code); }
      return option(hit.getAttribute("href"), [name, " ", hit.nextElementSibling, code], at);
    });
    const outcome = hits.querySelector("p").textContent;
    rows.push(option(address, [rows.length ? outcome + " · open the search page" : outcome], rows.length));
    offered.replaceChildren(...rows);
    listed = address;
    offered.hidden = false;
    choose(-1);
    announce(hits);
  }

  function withdraw() {
    if (offered) offered.hidden = true;
    choose(-1);
  }

  function choose(at) {
    const rows = offered ? [...offered.children] : [];
    active = at;
    for (const row of rows) row.setAttribute("aria-selected", String(row === rows[at]));
    if (at < 0) { box.removeAttribute("aria-activedescendant"); return; }
    box.setAttribute("aria-activedescendant", rows[at].id);
    rows[at].scrollIntoView({ block: "nearest" });
  }

  // Keys in the field: the arrows go through the hits and back to the field
  function onSearchKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const isOpen = offered && !offered.hidden;
    if (event.key === "Escape") { withdraw(); box.blur(); }
    else if (event.key === "Enter" && isOpen && active >= 0) { event.preventDefault(); offered.children[active].click(); }
    else if (step && isSearch) { event.preventDefault(); if (step > 0) move(1); }
    else if (step && isOpen) {
      event.preventDefault();
      const places = offered.children.length + 1;
      choose((active + 1 + step + places) % places - 1);
    }
  }

  if (box) {
    if (isSearch) sent = wanted();
    document.addEventListener("input", (event) => {
      if (event.target.form !== box.form) return;
      clearTimeout(typed);
      typed = setTimeout(find, 60);
    });
    box.addEventListener("focus", () => {
      if (isSearch || !box.value.trim()) return;
      if (offered && listed === wanted()) offered.hidden = false;
      else find();
    });
    box.form.addEventListener("focusout", (event) => {
      if (!isSearch && !box.form.contains(event.relatedTarget)) withdraw();
    });
    if (isSearch && !box.value) box.focus();
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
    if (!live) return;
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
        say(SHUT_OUT, 0);
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      const old = document.getElementById("live");
      if (!answer.ok || !fresh || !old) { say("This changed, and is not served any more: " + answer.status, 0); return; }
      await reopen(fresh);
      known = answer.headers.get("etag") || "";
      const follows = atEnd();
      const at = document.activeElement;
      const focused = at && (at.dataset.uri || at.closest("#rows tr")?.querySelector("a.go")?.dataset.uri);
      const isFold = at && at.matches(".fold");
      old.replaceWith(fresh);
      reveal();
      for (const part of ["details.model", ".facts-line"]) {
        const mine = document.querySelector(part);
        const theirs = page.querySelector(part);
        if (!mine || !theirs) continue;
        if (mine.open) theirs.open = true;
        mine.replaceWith(theirs);
      }
      const row = focused && rows().find((one) => one.dataset.uri === focused);
      if (row) (isFold && row.closest("tr").querySelector(".fold") || row).focus();
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
