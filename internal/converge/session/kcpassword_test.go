package session

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func TestScrambledPassword(t *testing.T) {
	data, err := scramblePassword("password")
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(data); got != "0de82150a5d3af8ea3b91f7d" {
		t.Errorf("got %s", got)
	}
	for length, want := range map[int]int{1: 12, 11: 12, 12: 24, 23: 24, 24: 36} {
		data, err := scramblePassword(strings.Repeat("x", length))
		if err != nil || len(data) != want || JudgePassword(data) != passwordUsable {
			t.Errorf("%d characters become %d bytes, %s (%v)", length, len(data), JudgePassword(data), err)
		}
	}
	for _, not := range []string{"", "<sealed>", "a\x00b", "a\nb", "a\r"} {
		if data, err := scramblePassword(not); err == nil || strings.Contains(err.Error(), "sealed>") {
			t.Errorf("%q becomes %x (%v)", not, data, err)
		}
	}
}

func TestStoredPasswordIsJudged(t *testing.T) {
	usable, err := scramblePassword("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	noisy := append(bytes.Clone(usable[:14]), 1, 2, 3) // macOS pads with noise
	for name, c := range map[string]struct {
		data []byte
		want StoredPassword
	}{
		"none":        {nil, passwordMissing},
		"usable":      {usable, passwordUsable},
		"noise after": {noisy, passwordUsable},
		"no end":      {usable[:13], passwordDamaged},
		"empty one":   {[]byte(kcpasswordKey), passwordDamaged},
		"sealed":      {[]byte(sealedPrefix + "\xa3"), passwordSealed},
	} {
		if got := JudgePassword(c.data); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
