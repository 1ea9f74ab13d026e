package chart

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// unlimited are fields below spec that have no limit in the schema, with what limits
// them all the same.
var unlimited = map[string]string{
	"MacNodeProfile/spec/rollout/soak":           "a rule",
	"ScalewayAppleSiliconHost/spec/claimRef/uid": "a rule",
	"MacNodeProfile/spec/storage/quota":          "a rule",
	// Cluster API's own type; what is in there becomes metadata, which is limited.
	"ExternalControlPlaneTemplate/spec/template/metadata/annotations":              "metadata",
	"ExternalControlPlaneTemplate/spec/template/metadata/annotations/*":            "metadata",
	"ExternalControlPlaneTemplate/spec/template/metadata/labels":                   "metadata",
	"ExternalControlPlaneTemplate/spec/template/metadata/labels/*":                 "metadata",
	"MacBootstrapConfigTemplate/spec/template/metadata/annotations":                "metadata",
	"MacBootstrapConfigTemplate/spec/template/metadata/annotations/*":              "metadata",
	"MacBootstrapConfigTemplate/spec/template/metadata/labels":                     "metadata",
	"MacBootstrapConfigTemplate/spec/template/metadata/labels/*":                   "metadata",
	"ScalewayAppleSiliconClusterTemplate/spec/template/metadata/annotations":       "metadata",
	"ScalewayAppleSiliconClusterTemplate/spec/template/metadata/annotations/*":     "metadata",
	"ScalewayAppleSiliconClusterTemplate/spec/template/metadata/labels":            "metadata",
	"ScalewayAppleSiliconClusterTemplate/spec/template/metadata/labels/*":          "metadata",
	"ScalewayAppleSiliconMachineTemplate/spec/template/metadata/annotations":       "metadata",
	"ScalewayAppleSiliconMachineTemplate/spec/template/metadata/annotations/*":     "metadata",
	"ScalewayAppleSiliconMachineTemplate/spec/template/metadata/labels":            "metadata",
	"ScalewayAppleSiliconMachineTemplate/spec/template/metadata/labels/*":          "metadata",
	"ScalewayAppleSiliconRemediationTemplate/spec/template/metadata/annotations":   "metadata",
	"ScalewayAppleSiliconRemediationTemplate/spec/template/metadata/annotations/*": "metadata",
	"ScalewayAppleSiliconRemediationTemplate/spec/template/metadata/labels":        "metadata",
	"ScalewayAppleSiliconRemediationTemplate/spec/template/metadata/labels/*":      "metadata",
}

// bounded are patterns that say by themselves how long a text may be.
var bounded = []string{
	`^[0-9a-f]{64}$`,
	`^[0-9A-Z]{10}$`,
	`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`,
}

// TestNothingUnlimitedIsStored: each text, list and map that people can write has a
// limit, which the API server knows; CEL's costs follow from these, too.
func TestNothingUnlimitedIsStored(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(chartDir, "crds", "*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d CRDs, %v: the search is broken", len(files), err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, version := range crd.Spec.Versions {
			spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
			limits(crd.Spec.Names.Kind+"/spec", spec, func(path, missing string) {
				seen[path] = true
				if unlimited[path] == "" {
					t.Errorf("%s has no %s: anything could be stored there", path, missing)
				}
			})
		}
	}
	for path := range unlimited {
		if !seen[path] {
			t.Errorf("%s has a limit, or is no field: take it out of this test's list", path)
		}
	}
}

// limits tells of each text, list and map below a schema that has no limit.
func limits(path string, schema apiextensionsv1.JSONSchemaProps, tell func(path, missing string)) {
	switch {
	case schema.Type == "string" && schema.MaxLength == nil && len(schema.Enum) == 0 && schema.Format == "" && !slices.Contains(bounded, schema.Pattern):
		tell(path, "maxLength")
	case schema.XIntOrString && schema.MaxLength == nil:
		tell(path, "maxLength")
	case schema.Type == "array" && schema.MaxItems == nil:
		tell(path, "maxItems")
	case schema.AdditionalProperties != nil && schema.MaxProperties == nil:
		tell(path, "maxProperties")
	}
	for name, property := range schema.Properties {
		limits(path+"/"+name, property, tell)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		limits(path+"[]", *schema.Items.Schema, tell)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		limits(path+"/*", *schema.AdditionalProperties.Schema, tell)
	}
}
