package memo

import (
	"sync"
	"testing"
)

func TestAMemoCountsWhateverManyChange(t *testing.T) {
	var m Memo[string, int]
	if m.Forget("a"); m.Get("a") != 0 {
		t.Error("something is known from the start")
	}
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			m.Change("a", func(n *int) { *n++ })
			if m.Len() != 1 {
				t.Error("another key is there")
			}
		})
	}
	group.Wait()
	m.Set("b", 7)
	if m.Get("a") != 100 || m.Get("b") != 7 || m.Len() != 2 {
		t.Errorf("a = %d, b = %d, %d keys", m.Get("a"), m.Get("b"), m.Len())
	}
	if m.Forget("a"); m.Get("a") != 0 || m.Get("b") != 7 || m.Len() != 1 {
		t.Errorf("forgotten: a = %d, b = %d, %d keys", m.Get("a"), m.Get("b"), m.Len())
	}
}
