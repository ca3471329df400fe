package config

import (
	"errors"
	"fmt"

	"guild"
	"guild/nip90"
)

// Rates returns the price by usage, and the price that customers are asked to lock or pay. rates is nil for a fixed price.
func (w Work) Rates() (rates *nip90.Rates, most guild.Msat) {
	if w.Per1kTokens == 0 && w.PerWorkMinute == 0 {
		return nil, w.Price
	}
	return &nip90.Rates{Price: w.Price, Per1kTokens: w.Per1kTokens, PerMinute: w.PerWorkMinute}, w.Most
}

// checkRates refuses a price by usage that no customer could be asked for.
func (w Work) checkRates() error {
	rated := w.Per1kTokens != 0 || w.PerWorkMinute != 0
	switch {
	case w.Per1kTokens < 0 || w.PerWorkMinute < 0 || w.Most < 0:
		return errors.New("per_1k_tokens_msat, per_work_minute_msat and most_msat are 0 or more")
	case rated && max(w.Price, w.Per1kTokens, w.PerWorkMinute, w.Most) > nip90.MaxMetered:
		return errors.New("price_msat, its rates and most_msat are more than there is")
	case rated && w.Most == 0:
		return errors.New("most_msat is missing: with a rate, customers lock the most that the work may cost")
	case !rated && w.Most != 0:
		return errors.New("most_msat is for a price by usage: per_1k_tokens_msat or per_work_minute_msat is missing")
	case rated && w.Most < w.Price:
		return fmt.Errorf("most_msat: %d, which is below the fixed part, price_msat: %d", w.Most, w.Price)
	}
	return nil
}
