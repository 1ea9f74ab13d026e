package main

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestDeadLinksAreFound(t *testing.T) {
	s, err := read(fstest.MapFS{
		"index.html": {Data: []byte(`<p id="top"><a href="docs/a.html#one">a</a> <a href="#top">up</a> <a href="#gone">x</a> <a href="https://example.com/gone">out</a>`)},
		"docs/a.html": {Data: []byte(`<h1 id="one">A</h1><a href="../index.html">home</a> <a href="../">home</a> <a href="b.html">b</a>
			<a href="../index.html#one">x</a> <img src="p.png"> <img src="q.png">`)},
		"docs/p.png": {},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"docs/a.html: ../index.html#one leads nowhere", "docs/a.html: b.html leads nowhere",
		"docs/a.html: q.png leads nowhere", "index.html: #gone leads nowhere",
	}
	if got := s.dead(); !slices.Equal(got, want) {
		t.Errorf("dead links %q, want %q", got, want)
	}
	if _, err := read(fstest.MapFS{"style.css": {}}); err == nil {
		t.Error("a site without pages is accepted")
	}
}

func TestDiagramsThatStayTextAreFound(t *testing.T) {
	s, err := read(fstest.MapFS{
		"drawn.html":  {Data: []byte(`<pre class="mermaid">flowchart LR</pre><script src="diagrams.1.js"></script>`)},
		"none.html":   {Data: []byte(`<pre>text</pre>`)},
		"code.html":   {Data: []byte(`<pre><code class="language-mermaid">flowchart LR</code></pre><script src="diagrams.1.js"></script>`)},
		"silent.html": {Data: []byte(`<pre class="mermaid">flowchart LR</pre>`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.undrawn(), []string{"code.html: its diagrams stay text", "silent.html: its diagrams stay text"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
