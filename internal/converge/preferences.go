package converge

import (
	"context"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// preference is a wanted value: a bool, an int or a string.
type preference struct {
	domain, key string
	value       any
}

// printed is the value as macos.Defaults gives it.
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

// preferences are wanted together.
type preferences []preference

// differ lists the preferences that have another value, or none.
func (all preferences) differ(ctx context.Context, defaults macos.Defaults) ([]string, error) {
	_, said, err := all.wrong(ctx, defaults)
	return said, err
}

// write writes the preferences that have another value.
func (all preferences) write(ctx context.Context, defaults macos.Defaults) error {
	wrong, _, err := all.wrong(ctx, defaults)
	if err != nil {
		return err
	}
	for _, p := range wrong {
		if err := p.write(ctx, defaults); err != nil {
			return err
		}
	}
	return nil
}

// wrong returns the preferences that have another value, or none, and says so of
// each. It reads each domain once: there are many keys in few domains.
func (all preferences) wrong(ctx context.Context, defaults macos.Defaults) (wrong preferences, said []string, err error) {
	domains := map[string]map[string]string{}
	for _, p := range all {
		values, read := domains[p.domain]
		if !read {
			if values, err = defaults.Values(ctx, p.domain); err != nil {
				return nil, nil, err
			}
			domains[p.domain] = values
		}
		got, found := values[p.key]
		switch {
		case !found:
			said = append(said, fmt.Sprintf("%s of %s is not set", p.key, p.domain))
		case got != p.printed():
			said = append(said, fmt.Sprintf("%s of %s is %.64q", p.key, p.domain, got))
		default:
			continue
		}
		wrong = append(wrong, p)
	}
	return wrong, said, nil
}

func (p preference) write(ctx context.Context, defaults macos.Defaults) error {
	switch v := p.value.(type) {
	case bool:
		return defaults.WriteBool(ctx, p.domain, p.key, v)
	case int:
		return defaults.WriteInt(ctx, p.domain, p.key, v)
	default:
		return defaults.WriteString(ctx, p.domain, p.key, p.printed())
	}
}

// remove removes the preferences, so that macOS goes back to its own choice.
func (all preferences) remove(ctx context.Context, defaults macos.Defaults) error {
	for _, p := range all {
		if err := defaults.Delete(ctx, p.domain, p.key); err != nil {
			return err
		}
	}
	return nil
}
