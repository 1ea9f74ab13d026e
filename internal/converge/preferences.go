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

// preferences are wanted together.
type preferences []preference

// differ lists the preferences that have another value, or none.
func (all preferences) differ(ctx context.Context, defaults macos.Defaults) ([]string, error) {
	var differs []string
	for _, p := range all {
		got, found, err := defaults.Read(ctx, p.domain, p.key)
		switch {
		case err != nil:
			return nil, err
		case !found:
			differs = append(differs, fmt.Sprintf("%s of %s is not set", p.key, p.domain))
		case got != p.printed():
			differs = append(differs, fmt.Sprintf("%s of %s is %.64q", p.key, p.domain, got))
		}
	}
	return differs, nil
}

// write writes the preferences that have another value.
func (all preferences) write(ctx context.Context, defaults macos.Defaults) error {
	for _, p := range all {
		got, found, err := defaults.Read(ctx, p.domain, p.key)
		if err != nil {
			return err
		}
		if found && got == p.printed() {
			continue
		}
		if err := p.write(ctx, defaults); err != nil {
			return err
		}
	}
	return nil
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
