"use strict";
// The server writes every part of this page; what is here puts changed parts in their
// places, filters tiles, and shows stories.
const byId = (id) => document.getElementById(id);
const filter = byId("filter"), tiles = byId("tiles"), story = byId("story"), told = byId("told"), link = byId("link");

function say(text) {
  link.hidden = !text;
  link.textContent = text;
}

function applyFilter() {
  const wanted = filter.value.trim().toLowerCase();
  let shown = 0;
  for (const tile of tiles.children) {
    tile.hidden = wanted !== "" && !tile.firstChild.getAttribute("aria-label").toLowerCase().includes(wanted);
    if (!tile.hidden) shown++;
  }
  byId("none").hidden = shown > 0 || wanted === "";
}

// keepFocus runs a change of the page, and gives the focus back to the element that stands
// for the same object.
function keepFocus(change) {
  const at = document.activeElement;
  const same = at && at.dataset && at.dataset.name && at.closest("[id]");
  const where = same && [same.id, at.dataset.kind, at.dataset.name];
  change();
  if (!where || at.isConnected) return;
  const again = byId(where[0]) && byId(where[0]).querySelector(`[data-kind="${CSS.escape(where[1])}"][data-name="${CSS.escape(where[2])}"]`);
  if (again) again.focus();
}

function update(parts) {
  keepFocus(() => {
    for (const [id, html] of Object.entries(parts)) {
      const part = byId(id);
      if (!part) continue;
      if (part.parentNode === tiles) part.outerHTML = html;
      else part.innerHTML = html;
    }
  });
  if (parts.tiles !== undefined || filter.value) applyFilter();
}

async function tell(of) {
  const query = new URLSearchParams({ kind: of.kind, namespace: of.namespace || "", name: of.name });
  let html;
  try {
    const answer = await fetch("story?" + query);
    html = await answer.text();
  } catch {
    html = "<p>The board does not answer: is macfleet board still running?</p>";
  }
  told.innerHTML = html;
  if (!story.open) story.showModal();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-kind]");
  if (button) tell(button.dataset);
  else if (event.target === story) story.close();
});

// When the key goes up the letter was typed, and not into the filter.
document.addEventListener("keyup", (event) => {
  if (event.key === "/" && document.activeElement !== filter && !story.open) filter.focus();
});

document.addEventListener("keydown", (event) => {
  const tile = document.activeElement.closest && document.activeElement.closest("#tiles > li");
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!tile || !step) return;
  let next = tile;
  do next = step > 0 ? next.nextElementSibling : next.previousElementSibling; while (next && next.hidden);
  if (next) next.firstChild.focus();
});

filter.addEventListener("input", applyFilter);

const live = new EventSource("live?version=" + document.body.dataset.version);
live.onopen = () => say("");
live.onmessage = (event) => update(JSON.parse(event.data));
live.onerror = () => say("Not live: the board does not answer. Is macfleet board still running?");
