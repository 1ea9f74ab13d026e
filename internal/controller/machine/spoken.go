package machine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// spoken remembers when each waiting Machine last said why. The counts in that
// message change with every host; written each time, a hundred Machines would keep
// the API server busy with words.
type spoken struct {
	mu sync.Mutex
	at map[types.NamespacedName]time.Time
}

// due reports that the Machine may say it anew, and notes that it does.
func (s *spoken) due(key types.NamespacedName, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, known := s.at[key]; known && now.Before(last.Add(waitPoll)) {
		return false
	}
	if s.at == nil {
		s.at = map[types.NamespacedName]time.Time{}
	}
	s.at[key] = now
	return true
}

func (s *spoken) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, key)
}
