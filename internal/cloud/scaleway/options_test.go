package scaleway_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/cloud/scaleway"
)

func TestNewRefusesBadOptionsInOneLine(t *testing.T) {
	good := scaleway.Options{AccessKey: accessKey, SecretKey: secretKey, ProjectID: projectID}
	for name, row := range map[string]struct {
		change func(*scaleway.Options)
		cause  error
		names  string
	}{
		"no access key":        {func(o *scaleway.Options) { o.AccessKey = "" }, scaleway.ErrNoCredentials, "SCW_ACCESS_KEY"},
		"no secret key":        {func(o *scaleway.Options) { o.SecretKey = "" }, scaleway.ErrNoCredentials, "SCW_SECRET_KEY"},
		"no project":           {func(o *scaleway.Options) { o.ProjectID = "" }, scaleway.ErrNoCredentials, "SCW_DEFAULT_PROJECT_ID"},
		"malformed access key": {func(o *scaleway.Options) { o.AccessKey = "SCWleak" }, scaleway.ErrMalformed, "SCW_ACCESS_KEY"},
		"malformed secret key": {func(o *scaleway.Options) { o.SecretKey = "SCWleak" }, scaleway.ErrMalformed, "SCW_SECRET_KEY"},
		"malformed project":    {func(o *scaleway.Options) { o.ProjectID = "SCWleak" }, scaleway.ErrMalformed, "SCW_DEFAULT_PROJECT_ID"},
		"malformed URL":        {func(o *scaleway.Options) { o.APIURL = "api.scaleway.com" }, scaleway.ErrMalformed, "SCW_API_URL"},
		"slash at the end":     {func(o *scaleway.Options) { o.APIURL = "https://api.scaleway.com/" }, scaleway.ErrMalformed, "SCW_API_URL"},
		"clear text":           {func(o *scaleway.Options) { o.APIURL = "http://api.scaleway.com" }, scaleway.ErrMalformed, "SCW_API_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := good
			row.change(&opts)
			_, err := scaleway.New(opts)
			var option *scaleway.OptionError
			if !errors.As(err, &option) || option.Variable != row.names || !errors.Is(err, row.cause) {
				t.Fatalf("got %v", err)
			}
			if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "leak") {
				t.Errorf("text %q", err)
			}
		})
	}
	if _, err := scaleway.New(good); err != nil {
		t.Errorf("good options: %v", err)
	}
	if shown := fmt.Sprintf("%v %+v %#v", good, good, good); strings.Contains(shown, secretKey) {
		t.Errorf("options print the secret key: %s", shown)
	}
}
