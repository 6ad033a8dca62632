/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/h5.h"

hid_t base_h5_access(struct base_h5 *h)
{
  *h = (struct base_h5){.file = -1, .text = -1};
  H5Eget_auto2(H5E_DEFAULT, &h->report, &h->report_data);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  base_h5_note(h, access < 0 ||
                      H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18) < 0 ||
                      H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) < 0);
  return access;
}

void base_h5_create(struct base_h5 *h, const char *name, hid_t access)
{
  hid_t create = H5Pcreate(H5P_FILE_CREATE);
  base_h5_note(h, create < 0 || H5Pset_obj_track_times(create, 0) < 0);
  h->text = H5Tcopy(H5T_C_S1);
  base_h5_note(h, h->text < 0 || H5Tset_size(h->text, H5T_VARIABLE) < 0 ||
                      H5Tset_cset(h->text, H5T_CSET_UTF8) < 0);
  if (!h->bad)
    h->file = H5Fcreate(name, H5F_ACC_TRUNC, create, access);
  base_h5_note(h, h->file < 0);
  if (create >= 0)
    H5Pclose(create);
  if (access >= 0)
    H5Pclose(access);
}

int base_h5_close(struct base_h5 *h)
{
  if (h->text >= 0)
    H5Tclose(h->text);
  if (h->file >= 0)
    base_h5_note(h, H5Fclose(h->file) < 0);
  H5Eset_auto2(H5E_DEFAULT, h->report, h->report_data);
  h->file = h->text = -1;
  return h->bad ? -1 : 0;
}

/* An attribute of one value. */
static void put(struct base_h5 *h, hid_t at, const char *name, hid_t disk, hid_t memory,
                const void *value)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t a = space < 0 ? -1 : H5Acreate2(at, name, disk, space, H5P_DEFAULT, H5P_DEFAULT);
  base_h5_note(h, a < 0 || H5Awrite(a, memory, value) < 0);
  if (a >= 0)
    H5Aclose(a);
  if (space >= 0)
    H5Sclose(space);
}

void base_h5_put_text(struct base_h5 *h, hid_t at, const char *name, const char *text)
{
  put(h, at, name, h->text, h->text, &text);
}

void base_h5_put_number(struct base_h5 *h, hid_t at, const char *name, int64_t value)
{
  put(h, at, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

hid_t base_h5_group(struct base_h5 *h, hid_t at, const char *name)
{
  hid_t p = H5Pcreate(H5P_GROUP_CREATE);
  hid_t g = -1;
  if (p >= 0 && H5Pset_obj_track_times(p, 0) >= 0)
    g = H5Gcreate2(at, name, H5P_DEFAULT, p, H5P_DEFAULT);
  if (p >= 0)
    H5Pclose(p);
  base_h5_note(h, g < 0);
  return g;
}

void base_h5_close_group(hid_t group)
{
  if (group >= 0)
    H5Gclose(group);
}

hid_t base_h5_dataset_list(struct base_h5 *h)
{
  hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  base_h5_note(h, p < 0 || H5Pset_obj_track_times(p, 0) < 0);
  return p;
}
