// Package memo keeps what a process remembers by key between its passes. It is lost
// with the process, so nothing may hang on it that cannot be found out again.
package memo

import "sync"

// Memo of values by key, for many goroutines. Its zero value is empty and works.
type Memo[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]V
}

// Get returns what is known of the key, or the zero value.
func (m *Memo[K, V]) Get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[key]
}

// Change changes what is known of the key, and returns it.
func (m *Memo[K, V]) Change(key K, change func(*V)) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[K]V{}
	}
	value := m.of[key]
	change(&value)
	m.of[key] = value
	return value
}

// Set replaces what is known of the key.
func (m *Memo[K, V]) Set(key K, value V) { m.Change(key, func(v *V) { *v = value }) }

// Forget drops the key.
func (m *Memo[K, V]) Forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, key)
}

// Len counts the keys.
func (m *Memo[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.of)
}
