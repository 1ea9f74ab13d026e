package tart

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

// arguments parses the words after one subcommand. Anything wrong with them is a
// usageError that shows the command's own usage line.
type arguments struct {
	*pflag.FlagSet
	usage string
}

func newArguments(usage string) arguments {
	set := pflag.NewFlagSet(usage, pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	return arguments{FlagSet: set, usage: usage}
}

// ignore declares flags that are accepted and have no effect here.
func (a arguments) ignore(booleans, options []string) {
	for _, name := range booleans {
		a.Bool(name, false, "")
	}
	for _, name := range options {
		a.StringArray(name, nil, "")
	}
}

// parse takes between least and most positional arguments; most < 0 sets no limit.
func (a arguments) parse(args []string, least, most int) ([]string, error) {
	if err := a.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, a.wrong("no help here")
		}
		return nil, a.wrong("%v", err)
	}
	words := a.Args()
	if len(words) < least {
		return nil, a.wrong("Missing expected argument")
	}
	if most >= 0 && len(words) > most {
		return nil, a.wrong("Unexpected argument '%s'", words[most])
	}
	return words, nil
}

func (a arguments) wrong(format string, args ...any) error {
	return usageError{message: fmt.Sprintf(format, args...), usage: a.usage}
}
