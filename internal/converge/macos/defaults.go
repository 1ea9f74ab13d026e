package macos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// localDefaults is the preferences of this Mac, through the command "defaults":
// the preferences daemon keeps values in memory, and a file changed around it is
// overwritten sooner or later.
type localDefaults struct{}

var _ Defaults = localDefaults{}

const defaultsCommand = "/usr/bin/defaults"

// Read implements Defaults.
func (localDefaults) Read(ctx context.Context, domain, key string) (string, bool, error) {
	out, err := run(ctx, defaultsCommand, "read", domain, key)
	if isMissingDefault(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("reading %s of %s: %w", key, domain, err)
	}
	return strings.TrimRight(out, "\n"), true, nil
}

// WriteBool implements Defaults.
func (d localDefaults) WriteBool(ctx context.Context, domain, key string, value bool) error {
	return d.write(ctx, domain, key, "-bool", strconv.FormatBool(value))
}

// WriteInt implements Defaults.
func (d localDefaults) WriteInt(ctx context.Context, domain, key string, value int) error {
	return d.write(ctx, domain, key, "-int", strconv.Itoa(value))
}

// WriteString implements Defaults.
func (d localDefaults) WriteString(ctx context.Context, domain, key, value string) error {
	return d.write(ctx, domain, key, "-string", value)
}

func (localDefaults) write(ctx context.Context, domain, key, kind, value string) error {
	if _, err := run(ctx, defaultsCommand, "write", domain, key, kind, value); err != nil {
		return fmt.Errorf("writing %s of %s: %w", key, domain, err)
	}
	return nil
}

// Delete implements Defaults.
func (localDefaults) Delete(ctx context.Context, domain, key string) error {
	_, err := run(ctx, defaultsCommand, "delete", domain, key)
	if err == nil || isMissingDefault(err) {
		return nil
	}
	return fmt.Errorf("deleting %s of %s: %w", key, domain, err)
}

// isMissingDefault reports the exit code of a key or domain that is not there.
// The command has no other way to say it, and the same code for any failure; so
// its words are asked too. They come after a line with the time.
func isMissingDefault(err error) bool {
	var failed *commandError
	return errors.As(err, &failed) && failed.Code == 1 &&
		(strings.Contains(failed.Complaint, "does not exist") || strings.Contains(failed.Complaint, "not found"))
}
