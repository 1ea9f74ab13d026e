package macostest

import (
	"context"
	"maps"
	"strconv"
)

// Default returns a preference as the command prints it.
func (m *Mac) Default(domain, key string) (string, bool) {
	value, found := m.defaults[domain][key]
	return value, found
}

// SetDefault changes a preference behind converge's back.
func (m *Mac) SetDefault(domain, key, value string) {
	if m.defaults[domain] == nil {
		m.defaults[domain] = map[string]string{}
	}
	m.defaults[domain][key] = value
}

type defaults struct{ m *Mac }

func (d defaults) Values(_ context.Context, domain string) (map[string]string, error) {
	return maps.Clone(d.m.defaults[domain]), nil
}

func (d defaults) WriteBool(_ context.Context, domain, key string, value bool) error {
	if value {
		return d.write(domain, key, "1")
	}
	return d.write(domain, key, "0")
}

func (d defaults) WriteInt(_ context.Context, domain, key string, value int) error {
	return d.write(domain, key, strconv.Itoa(value))
}

func (d defaults) WriteString(_ context.Context, domain, key, value string) error {
	return d.write(domain, key, value)
}

func (d defaults) write(domain, key, value string) error {
	if err := d.m.change("defaults write " + domain + " " + key); err != nil {
		return err
	}
	d.m.SetDefault(domain, key, value)
	return nil
}

func (d defaults) Delete(_ context.Context, domain, key string) error {
	if _, found := d.m.Default(domain, key); !found {
		return nil
	}
	if err := d.m.change("defaults delete " + domain + " " + key); err != nil {
		return err
	}
	delete(d.m.defaults[domain], key)
	return nil
}
