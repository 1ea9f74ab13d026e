package accept

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

func TestARefusedLoadIsBusyWhereThePacketFilterSaysSo(t *testing.T) {
	for said, want := range map[string]bool{
		"pfctl: DIOCADDRULE: Device busy\n":    true,
		"pfctl: DIOCXCOMMIT: Resource busy\n":  true,
		"pfctl: Syntax error in config file\n": false,
		"":                                     false,
	} {
		if got := (loaded{complaints: said, exit: 1}).busy(); got != want {
			t.Errorf("%q: busy %t", said, got)
		}
		if (loaded{complaints: said}).busy() {
			t.Errorf("%q: what is loaded was refused as busy", said)
		}
	}
}

func TestHeldInputComesOnceItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released, read := make(chan struct{}), make(chan string, 1)
		go func() {
			text, _ := io.ReadAll(heldInput{released, strings.NewReader("rules")})
			read <- string(text)
		}()
		synctest.Wait()
		select {
		case got := <-read:
			t.Fatalf("%q came before it was released", got)
		default:
		}
		close(released)
		if got := <-read; got != "rules" {
			t.Errorf("%q came", got)
		}
	})
}
