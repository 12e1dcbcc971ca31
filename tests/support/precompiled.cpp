// Compiles to nothing: the precompiled header of the tests needs a target that owns it.
