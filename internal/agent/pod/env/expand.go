package env

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// expand replaces $(NAME) by the value of NAME; a name that is not among vars is
// left as it stands, and $$ is a dollar that begins nothing.
func expand(s string, vars map[string]string) string {
	return expandBy(s, func(name string) (string, bool) {
		value, known := vars[name]
		return value, known
	})
}

// expandBy is expand with a function that knows the values.
func expandBy(s string, valueOf func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:i])
		text, length := reference(s[i:], valueOf)
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
// as its VM.
func Argv(c corev1.Container, env []string) []string {
	vars := variables(env)
	argv := make([]string, 0, len(c.Command)+len(c.Args))
	for _, part := range c.Command {
		argv = append(argv, expand(part, vars))
	}
	for _, part := range c.Args {
		argv = append(argv, expand(part, vars))
	}
	return argv
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
