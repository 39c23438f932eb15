"""A Fourier neural operator for the viscous Burgers equation on a periodic domain."""
