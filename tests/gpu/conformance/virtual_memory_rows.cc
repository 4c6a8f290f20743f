// The virtual memory API within one process.

#include "tests/gpu/conformance/device_memory.h"
#include "tests/gpu/conformance/table.h"

namespace tenure::conformance {
namespace {

// What the documentation lists for a call that goes against it, where it names no single one.
const std::vector<int> kRefusals = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_PERMITTED,
                                    CUDA_ERROR_NOT_SUPPORTED};

int TryCreate(Scene& scene, size_t size, const CUmemAllocationProp& properties,
              unsigned long long flags = 0) {
  CUmemGenericAllocationHandle handle = 0;
  const int result = scene.cuda.MemCreate(&handle, size, &properties, flags);
  if (result == CUDA_SUCCESS) scene.cuda.MemRelease(handle);
  return result;
}

int TryReserve(Scene& scene, size_t size, size_t alignment, unsigned long long flags = 0) {
  CUdeviceptr at = 0;
  const int result = scene.cuda.MemAddressReserve(&at, size, alignment, 0, flags);
  if (result == CUDA_SUCCESS) scene.cuda.MemAddressFree(at, size);
  const bool aligned = alignment == 0 || at % alignment == 0;
  return result != CUDA_SUCCESS || aligned ? result : kWrongValue;
}

// What cuMemMap answers for a handle of one granule in a reservation of two.
int TryMap(Scene& scene, size_t granules, size_t offset, unsigned long long flags) {
  const Reservation reservation(scene, 4);
  const Handle handle(scene);
  if (const int ready = FirstFailure({reservation.reserved(), handle.created()});
      ready != CUDA_SUCCESS) {
    return ready;
  }
  const size_t size = granules * scene.granularity;
  const int result = scene.cuda.MemMap(reservation.at(), size, offset, handle.value(), flags);
  if (result == CUDA_SUCCESS) scene.cuda.MemUnmap(reservation.at(), size);
  return result;
}

// What an API call answers that is made while two granules are mapped at once, of three reserved.
template <typename Body>
int WithTwoMapped(Scene& scene, const Body& body) {
  const Reservation reservation(scene, 3);
  const Handle handle(scene, 2);
  const Mapping mapping(scene, handle, reservation.at());
  return mapping.mapped() != CUDA_SUCCESS ? mapping.mapped() : body(reservation, handle);
}

int AccessAt(Scene& scene, CUdeviceptr at, unsigned long long& flags) {
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, scene.device};
  return scene.cuda.MemGetAccess(&flags, &location, at);
}

Table CreateRows() {
  return {
      {"cuMemGetAllocationGranularity tells a power of two",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const size_t size = scene.granularity;
         return size > 0 && (size & (size - 1)) == 0 ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuMemCreate takes a multiple of the granularity",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         return TryCreate(scene, 2 * scene.granularity, Properties(scene));
       }},
      {"cuMemCreate refuses a size that is no multiple of the granularity",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         return TryCreate(scene, scene.granularity + 1, Properties(scene));
       }},
      {"cuMemCreate refuses flags",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         return TryCreate(scene, scene.granularity, Properties(scene), 1);
       }},
      {"cuMemCreate refuses an allocation type that is none", kRefusals,
       [](Scene& scene) -> int {
         CUmemAllocationProp properties = Properties(scene);
         properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
         return TryCreate(scene, scene.granularity, properties);
       }},
      {"cuMemCreate refuses a location type that is none", kRefusals,
       [](Scene& scene) -> int {
         CUmemAllocationProp properties = Properties(scene);
         properties.location.type = CU_MEM_LOCATION_TYPE_INVALID;
         return TryCreate(scene, scene.granularity, properties);
       }},
      {"cuMemCreate refuses a device that is none",
       {CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         CUmemAllocationProp properties = Properties(scene);
         properties.location.id = 9999;
         return TryCreate(scene, scene.granularity, properties);
       }},
      {"cuMemCreate refuses more than the device has",
       {CUDA_ERROR_OUT_OF_MEMORY},
       [](Scene& scene) -> int {
         size_t total = 0;
         const int result = scene.cuda.DeviceTotalMem(&total, scene.device);
         if (result != CUDA_SUCCESS) return result;
         const size_t granules = total / scene.granularity + 1;
         return TryCreate(scene, granules * scene.granularity, Properties(scene));
       }},
      {"cuMemGetAllocationPropertiesFromHandle tells what was asked for",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Handle handle(scene);
         if (handle.created() != CUDA_SUCCESS) return handle.created();
         CUmemAllocationProp told{};
         const int result = scene.cuda.MemGetAllocationPropertiesFromHandle(&told, handle.value());
         if (result != CUDA_SUCCESS) return result;
         const CUmemAllocationProp asked = Properties(scene);
         const bool same = told.type == asked.type && told.location.type == asked.location.type &&
                           told.location.id == asked.location.id &&
                           told.requestedHandleTypes == asked.requestedHandleTypes;
         return same ? CUDA_SUCCESS : kWrongValue;
       }},
  };
}

Table AddressRows() {
  return {
      {"cuMemAddressReserve keeps to the alignment",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int { return TryReserve(scene, scene.granularity, size_t{1} << 30); }},
      {"cuMemAddressReserve refuses nothing at all",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int { return TryReserve(scene, 0, 0); }},
      {"cuMemAddressReserve refuses a size that is no multiple of the page",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int { return TryReserve(scene, scene.granularity + 1, 0); }},
      {"cuMemAddressReserve refuses an alignment that is no power of two",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int { return TryReserve(scene, scene.granularity, 3); }},
      {"cuMemAddressReserve refuses flags",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int { return TryReserve(scene, scene.granularity, 0, 1); }},
      {"cuMemAddressFree refuses a size that was not reserved", kRefusals,
       [](Scene& scene) -> int {
         const Reservation reservation(scene, 2);
         if (reservation.reserved() != CUDA_SUCCESS) return reservation.reserved();
         return scene.cuda.MemAddressFree(reservation.at(), scene.granularity);
       }},
  };
}

Table MapRows() {
  return {
      {"cuMemMap takes a whole handle",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int { return TryMap(scene, 1, 0, 0); }},
      {"cuMemMap refuses an offset", kRefusals,
       [](Scene& scene) -> int { return TryMap(scene, 1, scene.granularity, 0); }},
      {"cuMemMap refuses more than the handle has", kRefusals,
       [](Scene& scene) -> int { return TryMap(scene, 2, 0, 0); }},
      {"cuMemMap refuses flags", kRefusals,
       [](Scene& scene) -> int { return TryMap(scene, 1, 0, 1); }},
      {"cuMemMap refuses addresses that are mapped",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED,
        CUDA_ERROR_ALREADY_MAPPED},
       [](Scene& scene) -> int {
         return WithTwoMapped(scene, [&](const Reservation& reservation, const Handle&) -> int {
           const Handle other(scene);
           if (other.created() != CUDA_SUCCESS) return other.created();
           return scene.cuda.MemMap(reservation.at(1), other.size(), 0, other.value(), 0);
         });
       }},
      {"cuMemMap takes one handle at two addresses",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Reservation reservation(scene, 2);
         const Handle handle(scene);
         const Mapping one(scene, handle, reservation.at(0));
         const Mapping other(scene, handle, reservation.at(1));
         unsigned char byte = 0;
         const int result = FirstFailure({one.mapped(), other.mapped(),
                                          scene.cuda.MemsetD8(reservation.at(0), 7, 1),
                                          scene.cuda.MemcpyDtoH(&byte, reservation.at(1), 1)});
         if (result != CUDA_SUCCESS) return result;
         return byte == 7 ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuMemUnmap refuses a part of a mapping", kRefusals,
       [](Scene& scene) -> int {
         return WithTwoMapped(scene, [&](const Reservation& reservation, const Handle&) -> int {
           return scene.cuda.MemUnmap(reservation.at(), scene.granularity);
         });
       }},
      {"cuMemUnmap refuses addresses that are not mapped", kRefusals,
       [](Scene& scene) -> int {
         const Reservation reservation(scene, 1);
         if (reservation.reserved() != CUDA_SUCCESS) return reservation.reserved();
         return scene.cuda.MemUnmap(reservation.at(), scene.granularity);
       }},
      {"cuMemRetainAllocationHandle gives the handle that was mapped",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         return WithTwoMapped(scene,
                              [&](const Reservation& reservation, const Handle& handle) -> int {
                                CUmemGenericAllocationHandle retained = 0;
                                const int result = scene.cuda.MemRetainAllocationHandle(
                                    &retained, reinterpret_cast<void*>(reservation.at(1)));
                                if (result != CUDA_SUCCESS) return result;
                                scene.cuda.MemRelease(retained);
                                return retained == handle.value() ? CUDA_SUCCESS : kWrongValue;
                              });
       }},
      {"cuMemRetainAllocationHandle refuses an address that is not mapped", kRefusals,
       [](Scene& scene) -> int {
         const Reservation reservation(scene, 1);
         if (reservation.reserved() != CUDA_SUCCESS) return reservation.reserved();
         CUmemGenericAllocationHandle retained = 0;
         return scene.cuda.MemRetainAllocationHandle(&retained,
                                                     reinterpret_cast<void*>(reservation.at()));
       }},
  };
}

Table AccessRows() {
  return {
      {"cuMemSetAccess refuses a range that is mapped in part", kRefusals,
       [](Scene& scene) -> int {
         return WithTwoMapped(scene, [&](const Reservation& reservation, const Handle&) -> int {
           const CUmemAccessDesc desc = Access(scene, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
           return scene.cuda.MemSetAccess(reservation.at(), 3 * scene.granularity, &desc, 1);
         });
       }},
      {"cuMemSetAccess refuses a range that is not mapped", kRefusals,
       [](Scene& scene) -> int {
         const Reservation reservation(scene, 1);
         if (reservation.reserved() != CUDA_SUCCESS) return reservation.reserved();
         const CUmemAccessDesc desc = Access(scene, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
         return scene.cuda.MemSetAccess(reservation.at(), scene.granularity, &desc, 1);
       }},
      {"cuMemSetAccess takes one range of two mappings",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Reservation reservation(scene, 2);
         const Handle one(scene);
         const Handle other(scene);
         const Mapping first(scene, one, reservation.at(0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
         const Mapping second(scene, other, reservation.at(1), CU_MEM_ACCESS_FLAGS_PROT_NONE);
         const CUmemAccessDesc desc = Access(scene, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
         return FirstFailure(
             {first.mapped(), second.mapped(),
              scene.cuda.MemSetAccess(reservation.at(), 2 * scene.granularity, &desc, 1),
              scene.cuda.MemsetD8(reservation.at(), 1, 2 * scene.granularity)});
       }},
      {"cuMemGetAccess tells that a fresh mapping has none",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Reservation reservation(scene, 1);
         const Handle handle(scene);
         const Mapping mapping(scene, handle, reservation.at(), CU_MEM_ACCESS_FLAGS_PROT_NONE);
         unsigned long long flags = 99;
         const int result =
             FirstFailure({mapping.mapped(), AccessAt(scene, reservation.at(), flags)});
         if (result != CUDA_SUCCESS) return result;
         return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuMemGetAccess tells what was set",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Granule granule(scene);
         unsigned long long flags = 99;
         const int result = FirstFailure({granule.ready(), AccessAt(scene, granule.at(), flags)});
         if (result != CUDA_SUCCESS) return result;
         return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS : kWrongValue;
       }},
  };
}

}  // namespace

Table VirtualMemoryRows() {
  Table all;
  for (const Table& table : {CreateRows(), AddressRows(), MapRows(), AccessRows()}) {
    all.insert(all.end(), table.begin(), table.end());
  }
  return all;
}

}  // namespace tenure::conformance
