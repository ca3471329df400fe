package main

import (
	"fmt"

	"guild"
)

// amountFlag is a flag for an amount with its unit, such as 1000sat. A number alone is millisatoshis, as in earlier versions, or refused.
type amountFlag struct {
	amount uint64
	unit   string
	units  bool // a number alone is refused
	alone  bool // it was a number alone
}

// Set implements pflag.Value.
func (f *amountFlag) Set(text string) error {
	amount, unit, err := guild.ParseAmount(text)
	if err == nil && unit == "" && f.units {
		return noUnit(amount)
	}
	f.alone = unit == ""
	if f.alone {
		unit = "msat"
	}
	f.amount, f.unit = amount, unit
	return err
}

// noUnit is the error of an amount without a unit.
func noUnit(amount uint64) error {
	return fmt.Errorf("%d of what? Amounts have a unit, such as %dsat", amount, amount)
}

// String implements pflag.Value.
func (f *amountFlag) String() string {
	if f.unit == "" {
		return ""
	}
	return fmt.Sprintf("%d%s", f.amount, f.unit)
}

// Type implements pflag.Value.
func (f *amountFlag) Type() string { return "amount" }

// inBitcoin reports whether the amount is in sat or msat, or not given.
func (f *amountFlag) inBitcoin() bool { return f.unit == "" || f.unit == "msat" || f.unit == "sat" }

// thousandths returns the amount in thousandths of its unit: of bitcoin, in millisatoshis.
func (f *amountFlag) thousandths() (int64, error) {
	if f.unit == "msat" {
		return int64(f.amount), nil
	}
	if f.amount > 1<<53 {
		return 0, fmt.Errorf("%s is more than there is", f)
	}
	return int64(f.amount) * 1000, nil
}
