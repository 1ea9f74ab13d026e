package launchd

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"howett.net/plist"
)

// Defaults of launchd for keys a plist leaves out (launchd.plist(5)).
const (
	defaultThrottle    = 10 * time.Second
	defaultExitTimeout = 5 * time.Second
)

// Definition is a job as its property list describes it.
type Definition struct {
	Label       string
	Program     string
	Arguments   []string
	UserName    string
	RunAtLoad   bool
	KeepAlive   KeepAlive
	Throttle    time.Duration
	ExitTimeout time.Duration
	Stdin       string
	Stdout      string
	Stderr      string
	Environment map[string]string
	Dir         string
	Disabled    bool
	// AbandonGroup leaves the rest of the process group alive when the
	// job's own process ends.
	AbandonGroup bool
	// Unknown lists keys that launchd would ignore and this model does not
	// know either.
	Unknown []string
}

// KeepAlive says when an ended job is started again.
type KeepAlive struct {
	Always       bool
	OnFailure    bool // SuccessfulExit = false
	OnSuccess    bool // SuccessfulExit = true
	OnCrash      bool // Crashed = true
	conditionSet bool
}

func (k KeepAlive) any() bool { return k.Always || k.conditionSet }

func (k KeepAlive) restart(s Status) bool {
	switch {
	case k.Always:
		return true
	case s.Signal != 0:
		return k.OnCrash || k.OnFailure
	case s.Code != 0:
		return k.OnFailure
	}
	return k.OnSuccess
}

// ignoredKeys have no effect on what is modelled.
var ignoredKeys = []string{
	"ProcessType", "SoftResourceLimits", "HardResourceLimits", "SessionCreate", "Umask", "Nice",
	"LowPriorityIO", "LowPriorityBackgroundIO", "AssociatedBundleIdentifiers", "GroupName", "InitGroups",
	"LegacyTimers", "EnableTransactions", "LimitLoadToSessionType",
}

// Parse reads a property list. Its errors are what launchd reports as an I/O
// error with no further explanation.
func Parse(data []byte) (Definition, error) {
	raw := map[string]any{}
	if _, err := plist.Unmarshal(data, &raw); err != nil {
		return Definition{}, fmt.Errorf("reading the property list: %w", err)
	}
	d := Definition{Throttle: defaultThrottle, ExitTimeout: defaultExitTimeout}
	for key, value := range raw {
		if err := d.set(key, value); err != nil {
			return Definition{}, fmt.Errorf("key %s: %w", key, err)
		}
	}
	slices.Sort(d.Unknown)
	return d, d.check()
}

func (d *Definition) check() error {
	if d.Program == "" && len(d.Arguments) > 0 {
		d.Program = d.Arguments[0]
	}
	switch {
	case d.Label == "":
		return errors.New("no Label")
	case d.Program == "":
		return errors.New("no Program and no ProgramArguments")
	case !filepath.IsAbs(d.Program):
		return errors.New("program is not an absolute path")
	}
	if len(d.Arguments) == 0 {
		d.Arguments = []string{d.Program}
	}
	return nil
}

func (d *Definition) set(key string, value any) error {
	switch key {
	case "Label":
		return assign(&d.Label, value)
	case "Program":
		return assign(&d.Program, value)
	case "ProgramArguments":
		return assignList(&d.Arguments, value)
	case "UserName":
		return assign(&d.UserName, value)
	case "RunAtLoad":
		return assign(&d.RunAtLoad, value)
	case "Disabled":
		return assign(&d.Disabled, value)
	case "AbandonProcessGroup":
		return assign(&d.AbandonGroup, value)
	case "WorkingDirectory":
		return assign(&d.Dir, value)
	case "StandardInPath":
		return assign(&d.Stdin, value)
	case "StandardOutPath":
		return assign(&d.Stdout, value)
	case "StandardErrorPath":
		return assign(&d.Stderr, value)
	case "ThrottleInterval":
		return assignSeconds(&d.Throttle, value)
	case "ExitTimeOut":
		return assignSeconds(&d.ExitTimeout, value)
	case "EnvironmentVariables":
		return assignMap(&d.Environment, value)
	case "KeepAlive":
		return d.KeepAlive.set(value)
	}
	if !slices.Contains(ignoredKeys, key) {
		d.Unknown = append(d.Unknown, key)
	}
	return nil
}

func (k *KeepAlive) set(value any) error {
	conditions, ok := value.(map[string]any)
	if !ok {
		return assign(&k.Always, value)
	}
	k.conditionSet = true
	for key, v := range conditions {
		on, ok := v.(bool)
		switch {
		case !ok:
			return fmt.Errorf("condition %s is a %T", key, v)
		case key == "SuccessfulExit":
			k.OnSuccess, k.OnFailure = on, !on
		case key == "Crashed":
			k.OnCrash = on
		default:
			return fmt.Errorf("condition %s is not modelled", key)
		}
	}
	return nil
}

func assign[T any](to *T, value any) error {
	v, ok := value.(T)
	if !ok {
		return fmt.Errorf("a %T is not a %T", value, *to)
	}
	*to = v
	return nil
}

func assignList(to *[]string, value any) error {
	list, ok := value.([]any)
	if !ok {
		return fmt.Errorf("a %T is not an array", value)
	}
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("holds a %T", v)
		}
		*to = append(*to, s)
	}
	return nil
}

func assignMap(to *map[string]string, value any) error {
	entries, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("a %T is not a dictionary", value)
	}
	*to = map[string]string{}
	for k, v := range entries {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s is a %T", k, v)
		}
		(*to)[k] = s
	}
	return nil
}

func assignSeconds(to *time.Duration, value any) error {
	switch n := value.(type) {
	case uint64:
		*to = time.Duration(n) * time.Second
	case int64:
		*to = time.Duration(n) * time.Second
	default:
		return fmt.Errorf("a %T is not an integer", value)
	}
	return nil
}
