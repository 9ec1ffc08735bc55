"""What the scheduler, the HTTP routes and the command line all call: one module a noun."""
