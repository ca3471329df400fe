package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/nip90"
)

// priceFlags are the flags with the price of a job.
type priceFlags struct {
	fixed, tokens, minute, most amountFlag
}

func (p *priceFlags) flags(f *pflag.FlagSet) {
	f.Var(&p.fixed, "price", "of a job, with its unit, as 1000sat; a number alone is millisatoshis (default: work.price_msat, 0)")
	f.Var(&p.tokens, "per-1k-tokens", "in addition, for 1,000 tokens that the worker reports; needs --at-most")
	f.Var(&p.minute, "per-minute", "in addition, for a minute of its work; needs --at-most")
	f.Var(&p.most, "at-most", "with such a rate, what customers lock, and what they pay over Lightning")
}

// named lists the flags by their names.
func (p *priceFlags) named() []namedAmount {
	return []namedAmount{{"price", &p.fixed}, {"per-1k-tokens", &p.tokens}, {"per-minute", &p.minute}, {"at-most", &p.most}}
}

type namedAmount struct {
	name   string
	amount *amountFlag
}

// setPrice sets the price: that of the flags if there are any, else that of the configuration.
func (s *service) setPrice(w config.Work) error {
	var first *namedAmount // that was given
	var all [4]guild.Msat
	for i, one := range s.priced.named() {
		if one.amount.unit == "" {
			continue
		}
		thousandths, err := one.amount.thousandths()
		if err != nil {
			return fmt.Errorf("--%s %w", one.name, err)
		}
		all[i] = guild.Msat(thousandths)
		switch {
		case first == nil:
			first = &one
		case one.amount.inBitcoin() != first.amount.inBitcoin(), !one.amount.inBitcoin() && one.amount.unit != first.amount.unit:
			return cli.WithHint(fmt.Errorf("--%s is in %s and --%s in %s", first.name, first.amount.unit, one.name, one.amount.unit),
				"a price has one unit, as --price 300test --per-1k-tokens 2test --at-most 800test")
		}
	}
	if first != nil {
		w.Price, w.Per1kTokens, w.PerWorkMinute, w.Most, w.PriceUnit = all[0], all[1], all[2], all[3], ""
		if !first.amount.inBitcoin() {
			w.PriceUnit = first.amount.unit
		}
	}
	rates, most := w.Rates()
	switch {
	case first == nil:
	case rates != nil && w.Most == 0:
		return cli.WithHint(errors.New("--at-most is missing: with a rate, customers lock the most that the work may cost"), "guild work … --per-1k-tokens 2test --at-most 800test")
	case rates == nil && w.Most != 0:
		return cli.WithHint(errors.New("--at-most is for a price by usage"), "add --per-1k-tokens or --per-minute, or leave it out")
	case rates != nil && max(w.Price, w.Per1kTokens, w.PerWorkMinute, w.Most) > nip90.MaxMetered:
		return errors.New("--at-most, --price or a rate is more than there is")
	case w.Most < w.Price && rates != nil:
		return cli.WithHint(fmt.Errorf("--at-most %s is below the fixed part, --price %s", &s.priced.most, &s.priced.fixed), "customers lock --at-most, and --price is a part of it")
	}
	s.Rates, s.PriceMsat, s.Unit = rates, int64(most), w.PriceUnit
	return nil
}

// claimOf says what a provider claims that its work took.
func claimOf(u control.Usage) string {
	return fmt.Sprintf("the provider says %s tokens, %s", grouped(u.Tokens), duration(u.WorkMs))
}

// grouped writes a number with a comma before each three digits.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
