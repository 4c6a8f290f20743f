#pragma once

#include <span>

#include "core/base/units.h"

namespace tenure {

// How near a Device is to a load, nearest first.
enum class Nearness {
  kResident,              // the content is loaded there, or being loaded
  kRetainedContent,       // a Retained Region there holds it
  kRetainedArchitecture,  // a Retained Region there can be adopted
  kRoom,                  // nothing of it is there
};

// What a Device has to say to one load.
struct Proximity {
  Nearness nearness = Nearness::kRoom;
  Bytes room;           // free and retained
  bool serving = true;  // false: the Device is lost, or cordoned and would have to load it
};

// The index of the Device to load on: one that serves, if any does; of these the nearest; of these
// the one with most room; of these the first. REQUIRES: `devices` is not empty.
size_t ChooseDevice(std::span<const Proximity> devices);

}  // namespace tenure
