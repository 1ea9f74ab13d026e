package host

import "unicode/utf8"

// How many bytes the API lets an event's action and note have.
const (
	MostAction = 128
	MostNote   = 1024
)

// Bounded is the beginning of a text, of so many bytes at most and with whole letters.
func Bounded(text string, limit int) string {
	for len(text) > limit {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
