#pragma once

// NVIDIA's header, which only files named after CUDA include.

#include <cuda.h>
