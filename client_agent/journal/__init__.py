"""What happened on this laptop, durably: calls, results waiting for delivery, audit. The only code that speaks SQL."""
