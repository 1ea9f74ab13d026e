package parttest

import (
	"slices"
	"testing"
)

func TestPartsTogetherAreAll(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6}
	var got []int
	for _, part := range []string{"0/3", "4/3", "2/3"} {
		t.Setenv(Variable, part)
		some := Of(t, all)
		if len(some) < 2 || len(some) > 3 {
			t.Errorf("part %s is %v", part, some)
		}
		got = append(got, some...)
	}
	if slices.Sort(got); !slices.Equal(got, all) {
		t.Errorf("three parts are %v", got)
	}
	for _, part := range []string{"0/4", "1/4", "2/4", "3/4"} {
		t.Setenv(Variable, part)
		if some := Of(t, []int{0, 1, 2}); len(some) != 1 {
			t.Errorf("part %s of three is %v", part, some)
		}
	}
	t.Setenv(Variable, "")
	if got := Of(t, all); !slices.Equal(got, all) {
		t.Errorf("without a part: %v", got)
	}
}
