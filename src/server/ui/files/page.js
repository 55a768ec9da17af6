// Keeps the page up to date. The server renders everything; this only asks again and replaces what has changed.
"use strict";
(() => {
  const CALM = 50; // the shortest pause between two refreshes, in ms
  const SHARE = 8; // of the time, refreshes take at most one part in so many; a large page on a small machine is asked for less often
  const CREDIT = 1000; // how many ms of that they may be ahead: a single change, or a few, never wait for it
  const LONGEST = 5000; // what one refresh counts for at most, though the machine was asleep in between
  const TYPING = 200; // how long somebody has to stop typing before the filter is used
  const AGAIN = 5000; // how soon a refused connection is tried again
  const indicator = document.getElementById("live");
  const filter = document.getElementById("filter");
  document.documentElement.classList.add("scripted");

  function show(state) {
    indicator.hidden = false;
    indicator.dataset.state = state;
    indicator.textContent = state;
  }

  // Times. The server's clock counts, whatever the browser's says.
  let ahead = 0;
  function readClock(page) {
    ahead = Number(page.querySelector('meta[name="now"]').content) - Date.now();
  }

  function lasting(seconds) {
    const s = Math.max(0, Math.floor(seconds));
    const two = (large, unit, small, part) => `${large} ${unit}` + (small ? ` ${small} ${part}` : "");
    if (s < 60) return `${s} s`;
    if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
    if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor(s / 60) % 60, "min");
    return two(Math.floor(s / 86400), "d", Math.floor(s / 3600) % 24, "h");
  }

  function tick() {
    const now = Date.now() + ahead;
    for (const time of document.querySelectorAll("time[data-tick]")) {
      const text = lasting((now - Date.parse(time.dateTime)) / 1000) + (time.dataset.tick === "ago" ? " ago" : "");
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // Replacing. Two elements are the same if only their running times differ. What the server sent is remembered, so that
  // nothing has to be copied to be compared.
  const sent = new WeakMap();
  function content(element) {
    if (!sent.has(element)) {
      const copy = element.cloneNode(true);
      withoutTimes(copy);
      for (const flashed of [copy, ...copy.querySelectorAll(".flash")]) flashed.classList.remove("flash");
      for (const button of copy.querySelectorAll("button.copy")) button.remove();
      sent.set(element, copy.outerHTML);
    }
    return sent.get(element);
  }

  function withoutTimes(element) {
    for (const time of element.querySelectorAll("time[data-tick]")) time.textContent = "";
  }

  // Rows of tables, as they last came, by their ids. Of thousands of rows few change: the others are not even parsed.
  const rows = new Map();
  const KEYED = /<tbody[^>]* data-keyed>.*?<\/tbody>/gs;
  const ROW = /<tr id="([^"]+)".*?<\/tr>/gs;
  const TICKING = /(<time[^>]* data-tick="[^"]*"[^>]*>)[^<]*/g;
  function parse(text) {
    const unlessSame = (row, id) => {
      const lasting = row.replace(TICKING, "$1");
      if (rows.get(id) === lasting && document.getElementById(id)) return `<tr id="${id}" data-same></tr>`;
      rows.set(id, lasting);
      return row;
    };
    const less = text.replace(KEYED, (body) => body.replace(ROW, unlessSame));
    const page = new DOMParser().parseFromString(less, "text/html");
    withoutTimes(page);
    return page;
  }

  function flash(element) {
    if (!("flash" in element.dataset)) return;
    element.classList.add("flash");
    setTimeout(() => element.classList.remove("flash"), 2000);
  }

  function update(old, fresh) {
    if ("same" in fresh.dataset) return;
    if ("keyed" in old.dataset && "keyed" in fresh.dataset) {
      updateChildren(old, fresh);
      return;
    }
    if (old === document.activeElement) return;
    const text = fresh.outerHTML;
    if (content(old) === text) return;
    sent.set(fresh, text);
    const open = Array.from(old.querySelectorAll("details"), (own) => own.open);
    old.replaceWith(fresh);
    fresh.querySelectorAll("details").forEach((own, at) => (own.open = open[at] ?? false));
    flash(fresh);
  }

  // Children that stay the same are not touched, so that nobody loses a selection or the place they read.
  function updateChildren(old, fresh) {
    const known = new Map(Array.from(old.children, (child) => [child.id, child]));
    let place = old.firstElementChild;
    for (const child of Array.from(fresh.children)) {
      const before = known.get(child.id);
      if (!before) {
        sent.set(child, child.outerHTML);
        old.insertBefore(child, place);
        flash(child);
        continue;
      }
      if (before === place) place = place.nextElementSibling;
      else old.insertBefore(before, place);
      known.delete(child.id);
      update(before, child);
    }
    for (const gone of known.values()) gone.remove();
  }

  // A focused link may have been replaced or moved; its twin takes the focus.
  function keepFocus(work) {
    const active = document.activeElement;
    const home = active && active.closest("[data-live] [id], [data-live]");
    const [id, href] = home ? [home.id, active.getAttribute("href")] : [];
    work();
    if (!home || document.activeElement === active) return;
    const twin = document.getElementById(id);
    const links = twin ? [twin, ...twin.querySelectorAll("a[href]")] : [];
    const link = links.find((own) => own.getAttribute("href") === href);
    if (link) link.focus({ preventScroll: true });
  }

  // Refreshing: one at a time; whatever happens meanwhile causes one more.
  let running = false;
  let wanted = false;
  let paid = 0; // when the refreshes so far will have taken no more than their share
  async function refresh() {
    wanted = true;
    if (running || document.hidden) return;
    running = true;
    while (wanted && !document.hidden) {
      wanted = false;
      const begun = performance.now();
      let took = 0;
      const address = location.href;
      try {
        const answer = await fetch(address, { headers: { accept: "text/html" }, cache: "no-store" });
        const text = await answer.text();
        if (address === location.href) take(parse(text));
        else wanted = true;
        took = Math.min(performance.now() - begun, LONGEST);
      } catch {
        // The connection is gone; the event stream notices too, and asks again when it is back.
      }
      paid = Math.max(paid, begun) + SHARE * took;
      await new Promise((done) => setTimeout(done, Math.max(CALM, paid - CREDIT - performance.now())));
    }
    running = false;
  }

  function take(page) {
    const script = (of) => of.querySelector("script[src]")?.getAttribute("src");
    if (!script(page)) return;
    if (script(page) !== script(document)) {
      // Another version of the exporter answers.
      location.reload();
      return;
    }
    document.title = page.title;
    readClock(page);
    keepFocus(() => {
      for (const old of document.querySelectorAll("[data-live]")) {
        const fresh = page.getElementById(old.id);
        if (fresh) update(old, fresh);
      }
    });
    for (const id of rows.keys()) if (!document.getElementById(id)) rows.delete(id);
    offerCopies();
    tick();
  }

  // Copying commands. Without a secure context there is no clipboard to write to, but a selection can still be copied.
  async function copy(text, block) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren(block);
      document.execCommand("copy");
    }
  }

  function offerCopies() {
    for (const block of document.querySelectorAll("pre[data-copy]")) {
      if (block.previousElementSibling?.matches("button.copy")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        await copy(block.textContent, block);
        button.textContent = "Copied";
        setTimeout(() => (button.textContent = "Copy"), 2000);
      });
      block.before(button);
    }
  }

  // Listening. A hidden tab gives its connection back, and catches up when it is seen again.
  let events = null;
  let again = 0;
  function listen() {
    clearTimeout(again);
    if (events) events.close();
    events = null;
    if (document.hidden) {
      show("paused");
      return;
    }
    show("reconnecting");
    events = new EventSource("/v1/events");
    events.onopen = () => show("live");
    events.onerror = () => {
      show("reconnecting");
      if (events && events.readyState === EventSource.CLOSED) again = setTimeout(listen, AGAIN);
    };
    events.addEventListener("changed", refresh);
    events.addEventListener("transition", refresh);
    events.addEventListener("reset", refresh);
  }

  // Filtering while typing.
  let typing = 0;
  function applyFilter() {
    clearTimeout(typing);
    const fields = Array.from(new FormData(filter)).filter(([, value]) => value !== "");
    const query = new URLSearchParams(fields).toString();
    const path = filter.getAttribute("action");
    history.replaceState(null, "", query ? `${path}?${query}` : path);
    refresh();
  }
  if (filter) {
    filter.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(applyFilter, TYPING);
    });
    filter.addEventListener("submit", (event) => {
      event.preventDefault();
      applyFilter();
    });
  }

  // What no event tells of is asked for again and again, as long as somebody looks.
  const poll = document.querySelector("main[data-poll]");
  if (poll) setInterval(refresh, Number(poll.dataset.poll));

  offerCopies();
  readClock(document);
  setInterval(() => document.hidden || tick(), 1000);
  document.addEventListener("visibilitychange", listen);
  listen();
})();
