#pragma once

#include "tests/gpu/conformance/table.h"

namespace tenure::conformance {

CUmemAllocationProp Properties(const Scene& scene, bool exportable = true);
CUmemAccessDesc Access(const Scene& scene, CUmemAccess_flags flags);

// The first result that is no success.
int FirstFailure(std::initializer_list<int> results);

// A handle of some granules, released with this object.
class Handle {
 public:
  explicit Handle(Scene& scene, size_t granules = 1, bool exportable = true);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  int created() const { return created_; }
  CUmemGenericAllocationHandle value() const { return value_; }
  size_t size() const { return size_; }

 private:
  Scene& scene_;
  const size_t size_;
  CUmemGenericAllocationHandle value_ = 0;
  int created_;
};

// A reservation of some granules, freed with this object.
class Reservation {
 public:
  Reservation(Scene& scene, size_t granules);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  int reserved() const { return reserved_; }
  CUdeviceptr at(size_t granule = 0) const { return at_ + granule * granularity_; }

 private:
  Scene& scene_;
  const size_t granularity_;
  const size_t size_;
  CUdeviceptr at_ = 0;
  int reserved_;
};

// A handle mapped at an address of a reservation, unmapped with this object.
class Mapping {
 public:
  Mapping(Scene& scene, const Handle& handle, CUdeviceptr at,
          CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // The first failure of reserving, creating, mapping and setting access.
  int mapped() const { return mapped_; }

 private:
  Scene& scene_;
  const CUdeviceptr at_;
  const size_t size_;
  int mapped_;
};

// One granule of device memory, readable and writable.
class Granule {
 public:
  explicit Granule(Scene& scene)
      : reservation_(scene, 1), handle_(scene), mapping_(scene, handle_, reservation_.at()) {}

  int ready() const { return mapping_.mapped(); }
  CUdeviceptr at() const { return reservation_.at(); }
  size_t size() const { return handle_.size(); }
  CUmemGenericAllocationHandle handle() const { return handle_.value(); }

 private:
  const Reservation reservation_;
  const Handle handle_;
  const Mapping mapping_;
};

}  // namespace tenure::conformance
