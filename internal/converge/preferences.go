package converge

import (
	"context"
	"fmt"
)

// preference is a wanted value: a bool, an int or a string.
type preference struct {
	domain, key string
	value       any
}

// printed is the value as the preferences are printed.
func (p preference) printed() string {
	switch v := p.value.(type) {
	case bool:
		if v {
			return "1"
		}
		return "0"
	default:
		return fmt.Sprint(v)
	}
}

// unset lists the preferences that have another value, or none.
func (t *target) unset(ctx context.Context, wanted []preference) ([]string, error) {
	var all []string
	for _, p := range wanted {
		got, found, err := t.Mac.Defaults.Read(ctx, p.domain, p.key)
		switch {
		case err != nil:
			return nil, err
		case !found:
			all = append(all, fmt.Sprintf("%s of %s is not set", p.key, p.domain))
		case got != p.printed():
			all = append(all, fmt.Sprintf("%s of %s is %.64q", p.key, p.domain, got))
		}
	}
	return all, nil
}

// set writes the preferences that have another value.
func (t *target) set(ctx context.Context, wanted []preference) error {
	for _, p := range wanted {
		got, found, err := t.Mac.Defaults.Read(ctx, p.domain, p.key)
		if err != nil {
			return err
		}
		if found && got == p.printed() {
			continue
		}
		if err := t.writePreference(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) writePreference(ctx context.Context, p preference) error {
	switch v := p.value.(type) {
	case bool:
		return t.Mac.Defaults.WriteBool(ctx, p.domain, p.key, v)
	case int:
		return t.Mac.Defaults.WriteInt(ctx, p.domain, p.key, v)
	default:
		return t.Mac.Defaults.WriteString(ctx, p.domain, p.key, p.printed())
	}
}

// forget removes the preferences, so that macOS goes back to its own choice.
func (t *target) forget(ctx context.Context, wanted []preference) error {
	for _, p := range wanted {
		if err := t.Mac.Defaults.Delete(ctx, p.domain, p.key); err != nil {
			return err
		}
	}
	return nil
}
