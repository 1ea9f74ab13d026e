package server

import "sync"

// places are those of requests that may go on for long, by the Pod that they are for.
type places struct {
	// most of all, and most of one Pod.
	most, mostOfPod int

	mu  sync.Mutex
	all int
	of  map[string]int
}

func newPlaces(most, mostOfPod int) *places {
	return &places{most: most, mostOfPod: mostOfPod, of: map[string]int{}}
}

// take reports whether there was a place.
func (p *places) take(pod string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= p.most || p.of[pod] >= p.mostOfPod {
		return false
	}
	p.all++
	p.of[pod]++
	return true
}

func (p *places) free(pod string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.of[pod]--; p.of[pod] == 0 {
		delete(p.of, pod)
	}
}

// taken is how many there are.
func (p *places) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}
