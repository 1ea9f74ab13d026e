package main

import "testing"

func TestWhatIsAskedInTheForeground(t *testing.T) {
	asked := foreground(requestCounts{
		"get secrets by machine": 3, "list pods by machine": 2, "watch nodes by watches": 1, "create events by events": 5,
		"patch scalewayapplesiliconmachines/status by machine": 11, "delete secrets by machine": 13,
	})
	if got := asked.sum(); got != 29 {
		t.Errorf("%d requests, want 29", got)
	}
	if got := writes(asked); got != 24 {
		t.Errorf("%d writes, want 24", got)
	}
}
