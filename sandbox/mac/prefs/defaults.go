package prefs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"howett.net/plist"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// prefix begins what defaults says on stderr; the time and pid of a real one
// are left out.
const prefix = "defaults[0:0] \n"

// rcUsage is the exit code of a form that is not modelled.
const rcUsage = 64

func failure(format string, args ...any) wire.Answer {
	return wire.Answer{RC: 1, Stderr: prefix + fmt.Sprintf(format, args...) + "\n"}
}

func unmodelled(args []string) wire.Answer {
	what := "defaults " + strings.Join(args, " ")
	return wire.Answer{RC: rcUsage, Stderr: "defaults: not modelled: " + what + "\n", Unmodelled: what}
}

// Defaults runs the defaults command with args (without its name) for a user.
func (s *Store) Defaults(uid int, args []string) wire.Answer {
	all := args
	thisHost := len(args) > 0 && args[0] == "-currentHost"
	if thisHost {
		args = args[1:]
	}
	if len(args) < 2 {
		return unmodelled(all)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := domain{s: s, name: args[1], uid: uid, path: s.domainPath(uid, args[1], thisHost)}
	values, err := s.loadLocked(d.path)
	if err != nil && args[0] != "write" {
		return failure("Domain %s does not exist", d.name) // what a broken file amounts to
	}
	d.values = values
	verb, rest := args[0], args[2:]
	switch {
	case verb == "read" && len(rest) <= 1:
		return d.read(rest)
	case verb == "read-type" && len(rest) == 1:
		return d.readType(rest[0])
	case verb == "export" && slices.Equal(rest, []string{"-"}):
		return d.export()
	case verb == "write" && len(rest) >= 2:
		return d.write(rest[0], rest[1:])
	case verb == "delete" && len(rest) <= 1:
		return d.remove(rest)
	}
	return unmodelled(all)
}

// domain is one command's view of a domain.
type domain struct {
	s          *Store
	name, path string
	uid        int
	values     map[string]any // nil: there is none
}

func (d domain) missing(key string) wire.Answer {
	return failure("The domain/default pair of (%s, %s) does not exist", d.name, key)
}

func (d domain) read(keys []string) wire.Answer {
	if len(keys) == 0 {
		if d.values == nil {
			return failure("Domain %s does not exist", d.name)
		}
		return wire.Answer{Stdout: text(d.values) + "\n"}
	}
	v, ok := d.values[keys[0]]
	if !ok {
		return d.missing(keys[0])
	}
	return wire.Answer{Stdout: text(v) + "\n"}
}

// export prints the whole domain; one that is not there is an empty dictionary.
func (d domain) export() wire.Answer {
	values := d.values
	if values == nil {
		values = map[string]any{}
	}
	data, err := plist.MarshalIndent(values, plist.XMLFormat, "\t")
	if err != nil {
		return failure("Could not export domain %s to -: %v", d.name, err)
	}
	return wire.Answer{Stdout: string(data) + "\n"}
}

// text is the form defaults prints: numbers for booleans, strings as they are,
// the old style for collections.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		if v {
			return "1"
		}
		return "0"
	case map[string]any, []any:
		data, err := plist.MarshalIndent(booleansAsNumbers(v), plist.OpenStepFormat, "    ")
		if err != nil {
			return err.Error()
		}
		return string(data)
	}
	return fmt.Sprint(v)
}

func booleansAsNumbers(v any) any {
	switch v := v.(type) {
	case bool:
		return text(v)
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = booleansAsNumbers(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = booleansAsNumbers(e)
		}
		return out
	}
	return v
}

func (d domain) readType(key string) wire.Answer {
	v, ok := d.values[key]
	if !ok {
		return d.missing(key)
	}
	kind := "data"
	switch v.(type) {
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case int64, uint64:
		kind = "integer"
	case float64:
		kind = "float"
	case map[string]any:
		kind = "dictionary"
	case []any:
		kind = "array"
	}
	return wire.Answer{Stdout: "Type is " + kind + "\n"}
}

func (d domain) write(key string, words []string) wire.Answer {
	v, bad := value(words)
	if bad != nil {
		return *bad
	}
	if old, ok := d.values[key].(map[string]any); ok && words[0] == "-dict-add" {
		added := maps.Clone(old)
		maps.Copy(added, v.(map[string]any))
		v = added
	}
	if !d.s.mayWrite(d.uid, d.path) {
		return failure("Could not write domain %s; exiting", d.name)
	}
	next := map[string]any{}
	maps.Copy(next, d.values)
	next[key] = v
	return d.save(next)
}

func (d domain) save(next map[string]any) wire.Answer {
	if err := d.s.saveLocked(d.path, d.uid, next); err != nil {
		return failure("Could not write domain %s; exiting (%v)", d.name, err)
	}
	return wire.Answer{}
}

// value reads the words after the key.
func value(words []string) (any, *wire.Answer) {
	if len(words) == 1 && strings.HasPrefix(words[0], "-") && words[0] != "-array" && !strings.HasPrefix(words[0], "-dict") {
		if _, err := strconv.ParseFloat(words[0], 64); err != nil {
			a := unmodelled(words)
			return nil, &a
		}
	}
	switch {
	case words[0] == "-dict" || words[0] == "-dict-add":
		return dictionary(words[1:])
	case len(words) == 1 && words[0] != "-array":
		return plain(words[0])
	case words[0] == "-array":
		list := make([]any, 0, len(words)-1)
		for _, w := range words[1:] {
			list = append(list, w)
		}
		return list, nil
	case len(words) == 2:
		return typed(words[0], words[1], words)
	}
	a := unmodelled(words)
	return nil, &a
}

// dictionary reads pairs of a key and a value, with or without a type.
func dictionary(words []string) (any, *wire.Answer) {
	all := map[string]any{}
	for len(words) > 0 {
		key, rest := words[0], words[1:]
		n := 1
		if len(rest) > 1 && strings.HasPrefix(rest[0], "-") {
			n = 2
		}
		if len(rest) < n {
			a := failure("Key %s lacks a corresponding value", key)
			return nil, &a
		}
		v, bad := value(rest[:n])
		if bad != nil {
			return nil, bad
		}
		all[key], words = v, rest[n:]
	}
	return all, nil
}

// plain is a value without a type: a property list when it looks like one.
func plain(word string) (any, *wire.Answer) {
	if !strings.HasPrefix(word, "{") && !strings.HasPrefix(word, "(") && !strings.HasPrefix(word, "<") {
		return word, nil
	}
	var v any
	if _, err := plist.Unmarshal([]byte(word), &v); err != nil {
		a := failure("Could not parse: %s.  Try single-quoting it.", word)
		return nil, &a
	}
	return v, nil
}

func typed(kind, word string, words []string) (any, *wire.Answer) {
	switch kind {
	case "-string":
		return word, nil
	case "-bool", "-boolean":
		yes := slices.Contains([]string{"true", "TRUE", "True", "yes", "YES", "Yes", "1"}, word)
		no := slices.Contains([]string{"false", "FALSE", "False", "no", "NO", "No", "0"}, word)
		if yes || no {
			return yes, nil
		}
	case "-int", "-integer":
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			return n, nil
		}
	case "-float":
		if f, err := strconv.ParseFloat(word, 64); err == nil {
			return f, nil
		}
	default:
		a := unmodelled(words)
		return nil, &a
	}
	a := failure("Unexpected argument %s; leaving defaults unchanged.", word)
	return nil, &a
}

func (d domain) remove(keys []string) wire.Answer {
	if d.values == nil {
		return failure("Domain (%s) not found.\nDefaults have not been changed.", d.name)
	}
	if !d.s.mayWrite(d.uid, d.path) {
		return failure("Could not write domain %s; exiting", d.name)
	}
	next := map[string]any{}
	if len(keys) == 1 {
		if _, ok := d.values[keys[0]]; !ok {
			return failure("Domain (%s) not found.\nDefaults have not been changed.", d.name)
		}
		maps.Copy(next, d.values)
		delete(next, keys[0])
	}
	return d.save(next)
}
