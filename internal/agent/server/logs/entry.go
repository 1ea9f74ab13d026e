package logs

import (
	"bytes"
	"time"
)

// The streams of an entry.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// entry is one line of a log's file: a line of the container's output, or a piece of
// one.
type entry struct {
	time   time.Time
	stream string
	// content ends in a newline, unless the line goes on in the next entry. It is valid
	// until the next entry is read.
	content []byte
}

// parse reads one line of the file with its newline. What is no entry is reported as
// false.
func parse(line []byte) (entry, bool) {
	stamp, rest, found := bytes.Cut(line, []byte{' '})
	if !found {
		return entry{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return entry{}, false
	}
	name, rest, found := bytes.Cut(rest, []byte{' '})
	stream := streamOf(name)
	if !found || stream == "" {
		return entry{}, false
	}
	tags, content, found := bytes.Cut(rest, []byte{' '})
	if !found {
		return entry{}, false
	}
	// More tags may follow the first after a colon.
	if first, _, _ := bytes.Cut(tags, []byte{':'}); string(first) == "P" {
		content = bytes.TrimSuffix(content, []byte{'\n'})
	}
	return entry{time: at, stream: stream, content: content}, true
}

func streamOf(name []byte) string {
	switch string(name) {
	case Stdout:
		return Stdout
	case Stderr:
		return Stderr
	}
	return ""
}
