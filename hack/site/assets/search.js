// Finds pages that have all the words of the query; the index is read when somebody asks.
const query = document.getElementById("query");
const found = document.getElementById("found");
const base = document.getElementById("index").href;
let index;

async function read() {
  index ??= fetch(base).then((answer) => answer.json());
  return index;
}

// weight of a page for one word: its title counts most, then its headings. 0: it has it not.
function weight(page, word) {
  const count = (text) => text.toLowerCase().split(word).length - 1;
  return 50 * count(page.title) + 10 * count(page.headings.join("\n")) + Math.min(count(page.text), 9);
}

// around is what stands beside the first of the words.
function around(page, words) {
  const at = Math.max(0, page.text.toLowerCase().indexOf(words[0]));
  return page.text.slice(Math.max(0, at - 50), at + 110);
}

async function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const pages = words.length ? await read() : [];
  const hits = pages
    .map((page) => ({ page, weights: words.map((word) => weight(page, word)) }))
    .filter((hit) => hit.weights.every((w) => w > 0))
    .map((hit) => ({ ...hit, sum: hit.weights.reduce((a, b) => a + b) }))
    .sort((a, b) => b.sum - a.sum)
    .slice(0, 12);
  found.replaceChildren(...hits.map(({ page }) => {
    const item = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: new URL(page.url, base), textContent: page.title });
    const text = Object.assign(document.createElement("small"), { textContent: around(page, words) });
    item.append(link, text);
    return item;
  }));
  if (words.length && !hits.length) found.append(Object.assign(document.createElement("li"), { textContent: "No page has all these words." }));
  found.hidden = !words.length;
}

query.addEventListener("input", search);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== query) {
    event.preventDefault();
    query.focus();
  } else if (event.key === "Escape") {
    query.value = "";
    search();
  }
});
