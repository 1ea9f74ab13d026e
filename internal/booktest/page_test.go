package booktest

import "testing"

func TestWordsAreNoMarkup(t *testing.T) {
	for text, want := range map[string]string{
		"the Secret\n<cluster>-kubeconfig": `the Secret \<cluster>-kubeconfig`,
		"labels of `a<b>` and *":           "labels of `a<b>` and \\*",
		"hosts[0](x)":                      `hosts\[0](x)`,
	} {
		if got := Words(text); got != want {
			t.Errorf("Words(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestDefaultIsTakenOut(t *testing.T) {
	for text, want := range map[string][2]string{
		"the port (default: a free one)":             {"the port", "a free one"},
		"a directory; default: the environment":      {"a directory", "the environment"},
		"guests at once. Default: 2.":                {"guests at once.", "2"},
		"subnet. Default: 192.168.64.0/24.":          {"subnet.", "192.168.64.0/24"},
		"zone. Default: the first. Another is none.": {"zone. Another is none.", "the first"},
		"taints.\nDefault, when absent:\na=b.":       {"taints.", "a=b"},
		"images (default: none) to keep":             {"images (default: none) to keep", ""},
		"no word of it":                              {"no word of it", ""},
	} {
		if words, value := Default(text); words != want[0] || value != want[1] {
			t.Errorf("Default(%q) = %q, %q, want %q", text, words, value, want)
		}
	}
}

func TestTable(t *testing.T) {
	const want = "\n| a | b |\n|---|---|\n| x\\|y | |\n"
	if got := Table([]string{"a", "b"}, [][]string{{"x|y", ""}}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Table([]string{"a"}, nil); got != "" {
		t.Errorf("a table without rows is %q", got)
	}
}
