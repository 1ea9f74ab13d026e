// Package sbom says in SPDX which Go modules the programs of a release are made of,
// as the linker noted them in each.
package sbom

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// Describe writes the document of a release: each program, by the name it is shipped
// under, and its modules.
func Describe(version string, made time.Time, programs map[string]string) ([]byte, error) {
	d := &document{made: made, modules: map[string]*spdx.Package{}}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		if err := d.add(name, version, programs[name]); err != nil {
			return nil, fmt.Errorf("reading what %s is made of: %w", name, err)
		}
	}
	var out bytes.Buffer
	if err := spdxjson.Write(d.spdx(version), &out, spdxjson.Indent("  ")); err != nil {
		return nil, fmt.Errorf("writing the SBOM: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

type document struct {
	made     time.Time
	programs []*spdx.Package
	modules  map[string]*spdx.Package
	relates  []*spdx.Relationship
}

func (d *document) add(name, version, file string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	program := &spdx.Package{
		PackageName: name, PackageVersion: version, PackageSPDXIdentifier: identifier("program", name),
		PackageDownloadLocation: "https://github.com/macfleet/macfleet", PrimaryPackagePurpose: "APPLICATION",
		PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: "NOASSERTION",
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(sum[:])}},
	}
	d.programs = append(d.programs, program)
	d.relate("DOCUMENT", "DESCRIBES", program.PackageSPDXIdentifier)
	standard := &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}
	for _, module := range append([]*debug.Module{standard}, info.Deps...) {
		if module.Replace != nil {
			module = module.Replace
		}
		d.relate(program.PackageSPDXIdentifier, "DEPENDS_ON", d.module(module).PackageSPDXIdentifier)
	}
	return nil
}

func (d *document) relate(from common.ElementID, how string, to common.ElementID) {
	d.relates = append(d.relates, &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(to)), Relationship: how,
	})
}

// module is the one package of a module's version, whoever uses it.
func (d *document) module(m *debug.Module) *spdx.Package {
	key := m.Path + "@" + m.Version
	if known, found := d.modules[key]; found {
		return known
	}
	where := "https://" + m.Path
	if m.Path == "stdlib" {
		where = "https://go.dev/dl/"
	}
	d.modules[key] = &spdx.Package{
		PackageName: m.Path, PackageVersion: m.Version, PackageSPDXIdentifier: identifier("module", key),
		PackageDownloadLocation: where, PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION",
		PackageCopyrightText: "NOASSERTION", PrimaryPackagePurpose: "LIBRARY",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: "PACKAGE-MANAGER", RefType: "purl", Locator: "pkg:golang/" + key,
		}},
	}
	return d.modules[key]
}

func (d *document) spdx(version string) *spdx.Document {
	packages := slices.Clone(d.programs)
	packages = append(packages, slices.SortedFunc(maps.Values(d.modules), func(a, b *spdx.Package) int {
		return cmp.Or(strings.Compare(a.PackageName, b.PackageName), strings.Compare(a.PackageVersion, b.PackageVersion))
	})...)
	return &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: "macfleet-" + version, DocumentNamespace: d.namespace(version),
		CreationInfo: &spdx.CreationInfo{
			Created:  d.made.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "macfleet-release"}},
		},
		Packages: packages, Relationships: d.relates,
	}
}

// namespace names this document alone: it follows from what the programs are.
func (d *document) namespace(version string) string {
	sum := sha256.New()
	for _, program := range d.programs {
		fmt.Fprintln(sum, program.PackageName, program.PackageChecksums[0].Value)
	}
	return fmt.Sprintf("https://github.com/macfleet/macfleet/spdx/%s-%x", version, sum.Sum(nil)[:16])
}

// identifier is a name within the document: letters, digits, dots and dashes.
func identifier(kind, name string) common.ElementID {
	return common.ElementID(kind + "-" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, name))
}
