#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "client/cpp/connection.h"
#include "client/cpp/held_lease.h"
#include "client/cpp/mapping.h"
#include "client/cpp/tensor_table.h"
#include "tenure/weight_lease.h"

namespace tenure::client {

class WeightLease::Impl {
 public:
  Impl(std::shared_ptr<Connection> connection, std::shared_ptr<HeldLease> held,
       const Mapping* mapping, std::shared_ptr<const TensorTable> tensors,
       const v1::WeightLease& granted)
      : connection(std::move(connection)),
        held(std::move(held)),
        mapping(mapping),
        base(mapping != nullptr ? mapping->base() : nullptr),
        tensors(std::move(tensors)),
        name(granted.name()),
        revision(granted.revision()),
        device(granted.device()),
        generation(granted.generation()),
        architecture_key(granted.architecture_key()) {}

  const std::shared_ptr<Connection> connection;
  const std::shared_ptr<HeldLease> held;
  const Mapping* const mapping;  // null for a region of no bytes
  const std::byte* const base;
  const std::shared_ptr<const TensorTable> tensors;
  const std::string name;
  const uint64_t revision;
  const std::string device;
  const uint64_t generation;
  const std::string architecture_key;
};

}  // namespace tenure::client
