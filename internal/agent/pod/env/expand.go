package env

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// expand replaces $(NAME) by the value of NAME; a name that is not among vars is
// left as it stands, and $$ is a dollar that begins nothing. Values may have references
// themselves, each many times: what becomes longer than any process may have it is refused.
func expand(s string, vars map[string]string) (string, error) {
	return expandBy(s, func(name string) (string, bool) {
		value, known := vars[name]
		return value, known
	})
}

// expandBy is expand with a function that knows the values.
func expandBy(s string, valueOf func(name string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			out.WriteString(s)
			return out.String(), nil
		}
		out.WriteString(s[:i])
		text, length := reference(s[i:], valueOf)
		if out.Len()+len(text) > maxBytes {
			return "", wrong("it expands to more than %d bytes, which is what macOS allows", maxBytes)
		}
		out.WriteString(text)
		s = s[i+length:]
	}
}

// reference reads what a dollar begins: the text it stands for, and how many bytes
// it took.
func reference(s string, valueOf func(name string) (string, bool)) (text string, length int) {
	switch s[1] {
	case '$':
		return "$", 2
	case '(':
		if end := strings.IndexByte(s, ')'); end > 0 {
			if value, known := valueOf(s[2:end]); known {
				return value, end + 1
			}
			return s[:end+1], end + 1
		}
	}
	return "$", 1
}

// Argv is what a container executes: command, then args, with $(NAME) expanded
// from env. It is empty when the container has neither, and so only lives as long
// as its VM. The error is a *ConfigError.
func Argv(c corev1.Container, env []string) ([]string, error) {
	argv, err := expandAll(slices.Concat(c.Command, c.Args), variables(env))
	if err != nil {
		return nil, at(c, "command and args", err)
	}
	return argv, nil
}

// expandAll expands the words of a command.
func expandAll(words []string, vars map[string]string) ([]string, error) {
	expanded, size := make([]string, 0, len(words)), 0
	for _, word := range words {
		word, err := expand(word, vars)
		if err != nil {
			return nil, err
		}
		if size += len(word) + len("\x00"); size > maxBytes {
			return nil, wrong("they expand to more than %d bytes, which is what macOS allows", maxBytes)
		}
		expanded = append(expanded, word)
	}
	return expanded, nil
}

// variables are those of an environment, by name.
func variables(env []string) map[string]string {
	vars := make(map[string]string, len(env))
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	return vars
}
