// Stores past the caches: for results larger than these, which nobody reads soon. A plain store first reads the line
// that it is about to overwrite, so memory sees half as many bytes this way.
#pragma once

#include "kernels/simd/simd.h"

namespace qkv::kernels::QKV_ISA {

// Whether vectors are whole cache lines. Parts of a line that are not written one after the other may reach memory one
// by one, at several times the cost.
constexpr bool kCanStream = kVectorBytes == 64;

// To an address that is a multiple of the vector's bytes. Other threads may read it after end_of_stream() only.
#if defined(__AVX512F__)
inline void stream(float* p, Vec<float> v) { _mm512_stream_ps(p, (__m512)v); }
inline void stream(double* p, Vec<double> v) { _mm512_stream_pd(p, (__m512d)v); }
inline void end_of_stream() { _mm_sfence(); }
#elif defined(__AVX2__)
inline void stream(float* p, Vec<float> v) { _mm256_stream_ps(p, (__m256)v); }
inline void stream(double* p, Vec<double> v) { _mm256_stream_pd(p, (__m256d)v); }
inline void end_of_stream() { _mm_sfence(); }
#else
inline void stream(float* p, Vec<float> v) { store(p, v); }
inline void stream(double* p, Vec<double> v) { store(p, v); }
inline void end_of_stream() {}
#endif

}  // namespace qkv::kernels::QKV_ISA
