package env

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSubPathExpressions(t *testing.T) {
	vars := []string{"NAME=foo", "EMPTY=", "UP=..", "ROOT=/tmp", "DEEP=a/../../b", "LINE=a\nb", "LONG=" + strings.Repeat("x", 1000)}
	for expression, want := range map[string]string{
		"$(NAME)": "foo", "logs/$(NAME).log": "logs/foo.log", "$$(NAME)": "$(NAME)", "$(EMPTY)x": "x", "a..b": "a..b",
		"$(UP)": "", "$(ROOT)": "", "$(EMPTY)/$(NAME)": "", "$(DEEP)": "", "$(NONE)": "", "$(LINE)": "",
		"$(LONG)": strings.Repeat("x", 1000), "$(LONG)/$(LONG)": "",
	} {
		c := corev1.Container{Name: "main", VolumeMounts: []corev1.VolumeMount{{Name: "v", SubPath: "kept"}, {Name: "v", SubPathExpr: expression}}}
		got, err := WithSubPaths(c, vars)
		if c.VolumeMounts[1].SubPathExpr != expression {
			t.Fatal("the Pod itself was changed")
		}
		var config *configError
		if want == "" {
			if !errors.As(err, &config) || config.Reason != ReasonConfig {
				t.Errorf("%s gives %+v, %v", expression, got.VolumeMounts, err)
			}
			continue
		}
		if err != nil || got.VolumeMounts[0].SubPath != "kept" || got.VolumeMounts[1].SubPath != want || got.VolumeMounts[1].SubPathExpr != "" {
			t.Errorf("%s gives %+v, %v, want %s", expression, got.VolumeMounts, err, want)
		}
	}
}
