package macostest

import "fmt"

// Snapshot is every file and folder, with its attributes and what it holds.
func (m *Mac) Snapshot() map[string]string {
	all := make(map[string]string, len(m.files))
	for name, f := range m.files {
		all[name] = fmt.Sprintf("%s dir=%t link=%q %q", f.Attr, f.Dir, f.Target, f.data)
	}
	return all
}
