#pragma once

// Marks what libtenure_client.so shows; everything else in it is hidden.
#define TENURE_CLIENT_API __attribute__((visibility("default")))
