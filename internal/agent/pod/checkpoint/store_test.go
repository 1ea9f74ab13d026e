package checkpoint

import (
	"os"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

func TestCheckpointsOfAnEarlierAgentAreRead(t *testing.T) {
	j := Store(t.TempDir())
	old := `{"uid":"u","namespace":"ns","name":"a","attempt":3,"restarts":2,"step":"ended","last":{"code":1,"reason":"Error","finished":"2026-05-01T10:00:00Z"}}`
	if err := j.Save(state.Record{UID: "u"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(j.recordFile("u"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := j.Load("u")
	if err != nil || r == nil {
		t.Fatalf("record %v, err %v", r, err)
	}
	if e := r.ExitOrLost(); r.Restarts != 2 || e.Code != 1 {
		t.Errorf("restarts %d, outcome %+v", r.Restarts, e)
	}
}
