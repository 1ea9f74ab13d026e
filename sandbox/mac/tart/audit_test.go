package tart

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheJournalTellsWhatWasBroken(t *testing.T) {
	t.Parallel()
	m := newMac(t, nil)
	m.must("pull", testImage)
	m.must("pull", testImage)
	m.must("clone", testImage, "good")
	m.boot("good").signal(syscall.SIGINT)
	read := func() Journal {
		j, err := ReadJournal(m.path("home", ".journal.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	if got := read().Broken(); got != nil {
		t.Errorf("broken: %v", got)
	}
	downloads := read().Downloads()
	for image, n := range downloads {
		if n != 1 {
			t.Errorf("%s came %d times", image, n)
		}
	}
	if len(downloads) != 1 || len(read().Calls("pull")) != 2 {
		t.Errorf("%v, %v", downloads, read().Calls("pull"))
	}
	m.must("clone", "good", "bad")
	m.boot("bad")
	m.do("run", "bad")
	m.must("clone", "good", "bad")
	want := []string{"a clone was run twice: bad", "a running VM was run: bad", "the name of a running VM was taken: bad"}
	if diff := cmp.Diff(want, read().Broken()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
