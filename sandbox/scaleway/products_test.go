package scaleway_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	productcatalog "github.com/scaleway/scaleway-sdk-go/api/product_catalog/v2alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// scw lists server types with the footprints of the price list, which it finds by
// the product's name: types whose name has the word Pro drop out of its list.
func TestServerTypesAsScwListsThem(t *testing.T) {
	w := newWorld(t, scaleway.Options{PageSize: 3})
	client := w.client(scaleway.DefaultSecretKey)
	types, err := w.macs.ListServerTypes(&applesilicon.ListServerTypesRequest{})
	must(t, err)
	where := zone
	list, err := productcatalog.NewPublicCatalogAPI(client).ListPublicCatalogProducts(&productcatalog.PublicCatalogAPIListPublicCatalogProductsRequest{
		ProductTypes: []productcatalog.ListPublicCatalogProductsRequestProductType{productcatalog.ListPublicCatalogProductsRequestProductTypeAppleSilicon},
		Zone:         &where,
	}, scw.WithAllPages())
	must(t, err)
	products := map[string]*productcatalog.PublicCatalogProduct{}
	for _, p := range list.Products {
		products[strings.ReplaceAll(strings.TrimPrefix(p.Product, "Mac Mini "), " - ", "-")] = p
	}
	shown := map[string]float32{}
	for _, kind := range types.ServerTypes {
		if p := products[kind.Name]; p != nil {
			shown[kind.Name] = *p.EnvironmentalImpactEstimation.KgCo2Equivalent
		}
		if kind.Zone != zone {
			t.Errorf("%s is in zone %q", kind.Name, kind.Zone)
		}
	}
	want := map[string]float32{"M4-S": 0.014205732, "M4-M": 0.015271181, "M2-M": 0.013547652}
	if diff := cmp.Diff(want, shown); diff != "" || list.TotalCount != 10 {
		t.Errorf("%d products\n%s", list.TotalCount, diff)
	}
	hourly := products["M2 Pro-L"]
	if hourly.Sku != "/apple-silicon/m2-l/run_par1" || *hourly.Price.RetailPrice != (scw.Money{CurrencyCode: "EUR", Nanos: 210_000_000}) {
		t.Errorf("%s costs %+v", hourly.Sku, hourly.Price.RetailPrice)
	}
}
