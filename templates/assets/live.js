// Two things, and no framework: times in the viewer's zone, and a page that follows the changes. Without this script
// every page reads the same, in UTC, as of when it was loaded.
"use strict";
(() => {
  const forms = {
    minute: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" },
    second: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" },
    milli: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 },
  };
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const isUtc = /^(UTC|Etc\/UTC|GMT)$/.test(zone);
  const writers = Object.fromEntries(Object.entries(forms).map(([k, f]) => [k, new Intl.DateTimeFormat("en-GB", { ...f, hour12: false })]));

  // UTC stays at hand as the title.
  const localise = (root) => {
    if (isUtc) return;
    for (const t of root.querySelectorAll("time[data-shown]")) {
      const at = new Date(t.dateTime);
      if (!Number.isNaN(at.getTime())) t.textContent = writers[t.dataset.shown].format(at);
    }
  };
  localise(document);
  const zoneNote = document.querySelector(".zone");
  if (zoneNote && !isUtc) zoneNote.textContent = " where they stand in pictures, and in " + zone + " elsewhere; UTC shows on pointing";

  if (!document.querySelector("script[data-live]") || !window.EventSource) return;
  const main = document.getElementById("main");
  const status = document.getElementById("live");
  let loading = false, wanted = false, held = null, pressed = false, lastChange = 0;

  const say = (state, text) => {
    if (status.dataset.state === state) return;
    status.dataset.state = state;
    status.textContent = text;
  };

  const keyed = (root, key) => key && [...root.querySelectorAll("[data-key]")].find((e) => e.dataset.key === key);
  const hovered = () => {
    const all = main.querySelectorAll("[data-key]:hover");
    return all.length ? all[all.length - 1] : null;
  };
  const busy = () => {
    const s = document.getSelection();
    if (s && !s.isCollapsed && main.contains(s.anchorNode)) return true;
    const a = document.activeElement;
    if (a && main.contains(a) && a !== main && /^(INPUT|SELECT|TEXTAREA)$/.test(a.tagName)) return true;
    return pressed;
  };

  // Shows new content. What is open stays open, what has the focus keeps it, and what lies under the pointer stays
  // there; where that cannot be kept, the new content waits and says so.
  const show = (next, force) => {
    if (!force && busy()) return false;
    const open = new Set([...main.querySelectorAll("details[open]")].map((d) => d.dataset.key));
    const focus = document.activeElement && main.contains(document.activeElement) ? document.activeElement : null;
    const focusKey = focus && focus.closest("[data-key]") && focus.closest("[data-key]").dataset.key;
    const focusHref = focus && focus.getAttribute("href");
    const focusTag = focus && focus.tagName;
    const under = hovered();
    const hovering = main.matches(":hover");
    const key = under && under.dataset.key, top = under && under.getBoundingClientRect().top;
    const scrolled = window.scrollY, height = main.scrollHeight;
    const old = [...main.childNodes];
    for (const d of next.querySelectorAll("details")) if (open.has(d.dataset.key)) d.open = true;
    localise(next);
    const boxes = [...main.querySelectorAll(".scroll")].map((b) => b.scrollLeft);
    main.replaceChildren(...next.childNodes);
    main.querySelectorAll(".scroll").forEach((b, i) => { if (boxes[i]) b.scrollLeft = boxes[i]; });
    if (!force && hovering) {
      const now = keyed(main, key);
      let off = now ? now.getBoundingClientRect().top - top : (key || main.scrollHeight !== height ? Infinity : 0);
      if (off !== 0 && Number.isFinite(off)) {
        window.scrollBy(0, off);
        off = now.getBoundingClientRect().top - top;
      }
      if (Math.abs(off) > 1) {
        const fresh = [...main.childNodes];
        main.replaceChildren(...old);
        window.scrollTo(window.scrollX, scrolled);
        next.replaceChildren(...fresh);
        return false;
      }
    }
    if (focus) {
      const home = focusKey ? keyed(main, focusKey) : main;
      const again = home && (focusHref
        ? [...home.querySelectorAll("a")].find((a) => a.getAttribute("href") === focusHref)
        : home.querySelector(focusTag.toLowerCase()));
      if (again) again.focus({ preventScroll: true });
    }
    return true;
  };

  const offer = () => {
    if (status.dataset.state === "waiting") return;
    status.dataset.state = "waiting";
    const b = document.createElement("button");
    b.type = "button";
    b.textContent = "New figures: show";
    b.addEventListener("click", () => settle(true));
    status.replaceChildren(b);
  };
  const settle = (force) => {
    if (!held) return;
    if (show(held, force)) {
      held = null;
      say("live", "live");
    } else offer();
  };

  const refresh = async () => {
    if (loading || document.hidden) { wanted = true; return; }
    loading = true;
    wanted = false;
    try {
      const reply = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
      if (!reply.ok) throw new Error(String(reply.status));
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const next = page.getElementById("main");
      if (next) { held = next; settle(false); }
      lastChange = Date.now();
    } catch {
      say("lost", "connection lost: figures as of " + new Date(lastChange || Date.now()).toLocaleTimeString("en-GB"));
    }
    loading = false;
    if (wanted) refresh();
  };

  addEventListener("pointerdown", () => { pressed = true; });
  for (const e of ["pointerup", "pointercancel", "blur"]) addEventListener(e, () => { pressed = false; setTimeout(() => settle(false), 300); });
  main.addEventListener("pointerleave", () => settle(false));
  document.addEventListener("selectionchange", () => { if (held) settle(false); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && wanted) refresh(); });
  // "12 s ago" ages too.
  setInterval(() => { if (!document.hidden && Date.now() - lastChange > 25000) refresh(); }, 5000);

  const source = new EventSource("/api/v1/stream");
  lastChange = Date.now();
  let before = main.dataset.at;
  source.addEventListener("hello", (e) => {
    if (!held) say("live", "live");
    // Back after a broken connection, or something happened while this page was on its way.
    if (before !== e.data) refresh();
    before = e.data;
  });
  source.addEventListener("change", (e) => { before = e.data; refresh(); });
  source.onerror = () => say("lost", "connection lost: figures as of " + new Date(lastChange).toLocaleTimeString("en-GB"));
  addEventListener("pagehide", () => source.close());
})();
