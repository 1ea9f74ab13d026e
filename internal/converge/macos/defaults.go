package macos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"howett.net/plist"
)

// localDefaults is the preferences of this Mac, through the command "defaults":
// the preferences daemon keeps values in memory, and a file changed around it is
// overwritten sooner or later.
type localDefaults struct{}

var _ Defaults = localDefaults{}

const defaultsCommand = "/usr/bin/defaults"

// Values implements Defaults.
func (d localDefaults) Values(ctx context.Context, domain string) (map[string]string, error) {
	all, err := d.export(ctx, domain)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(all))
	for key, value := range all {
		values[key] = printedDefault(value)
	}
	return values, nil
}

// printedDefault is a value as "defaults read" prints it.
func printedDefault(value any) string {
	switch value {
	case true:
		return "1"
	case false:
		return "0"
	}
	return fmt.Sprint(value)
}

// export reads a whole domain with one command; one that is not there is empty.
func (localDefaults) export(ctx context.Context, domain string) (map[string]any, error) {
	out, err := run(ctx, defaultsCommand, "export", domain, "-")
	if isMissingDefault(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", domain, err)
	}
	all, err := parseDomain(out)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", domain, err)
	}
	return all, nil
}

func parseDomain(text string) (map[string]any, error) {
	if strings.TrimSpace(text) == "" { // an empty dictionary, in the old style
		return nil, errors.New("defaults exports nothing")
	}
	var all map[string]any
	if _, err := plist.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("defaults exports %q, which is no dictionary: %w", firstLine(text), err)
	}
	return all, nil
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
