package node

import (
	"testing"
	"time"

	"guild/internal/control"
	"guild/verify"
)

// The provider countersigns the published seal that covers its job, and the export proves it.
func TestProviderCountersignsItsCustomersSeal(t *testing.T) {
	url := startRelay(t)
	start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(c *Config) { c.Records = Records{Publish: true, SealEvery: time.Second} })
	job := hire(t, customer, control.Hire{})
	var report verify.Report
	eventually(t, "a witness", func() bool {
		packed, err := control.ReceiptExport.Call(t.Context(), customer, job.ID)
		if err != nil {
			t.Fatal(err)
		}
		report, err = verify.Archive(packed)
		if err != nil || !report.OK() {
			t.Fatalf("%v, %v", report, err)
		}
		return report.Grade == verify.Witnessed
	})
	if report.Facts.Witnessed == 0 {
		t.Errorf("%+v", report.Facts)
	}
}
