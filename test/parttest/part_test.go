package parttest

import (
	"fmt"
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

func TestATestBelongsToOnePart(t *testing.T) {
	for _, part := range []string{"0/3", "1/3", "2/3", "3/3", "4/3", "5/3"} {
		t.Run(part[:1], func(t *testing.T) {
			t.Setenv(Variable, part)
			skipped := false
			t.Run("case", func(t *testing.T) {
				defer func() { skipped = t.Skipped() }()
				Skip(t)
			})
			name := t.Name() + "/case"
			if plays := int(part[0]-'0')%3 == partOf(name, 3); plays == skipped {
				t.Errorf("%s in part %s: skipped %v", name, part, skipped)
			}
		})
	}
	t.Run("without a part", func(t *testing.T) {
		t.Setenv(Variable, "")
		Skip(t)
	})
}

func TestPartsAreOfAboutOneSize(t *testing.T) {
	sizes := make([]int, 4)
	for i := range 400 {
		sizes[partOf(fmt.Sprintf("TestNumber%d", i), 4)]++
	}
	if slices.Min(sizes) < 70 {
		t.Errorf("400 tests make parts of %v", sizes)
	}
}
